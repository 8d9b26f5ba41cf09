"""Whose data a log dir holds: `meta.properties`, which Apache Kafka keeps in every log dir too.

A broker that is started with another id, or on another cluster's folders, would find none of its partitions and serve
nothing in their place. It must not start.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from highwater.config.properties import parse_properties
from highwater.model.errors import StorageError
from highwater.storage.files import Files, read_file, replace_file

FILE_NAME: Final = "meta.properties"


class Owner(NamedTuple):
    """A broker of a cluster."""

    broker_id: int
    cluster_id: str

    def __str__(self) -> str:
        return f"broker {self.broker_id} of cluster {self.cluster_id}"


def read_owner(files: Files, folder: Path) -> Owner | None:
    """Return whose data is in `folder`, None if nobody has claimed it. StorageError if the file is damaged."""
    content = read_file(files, folder / FILE_NAME)
    if content is None:
        return None
    try:
        values = {key: value for key, value, _ in parse_properties(content.decode())}
        return Owner(int(values.get("broker.id") or values["node.id"]), values["cluster.id"])
    except (ValueError, KeyError) as error:
        raise StorageError(f"{folder / FILE_NAME} is damaged: {error}") from error


def check_owner(files: Files, folders: Sequence[Path], broker_id: int) -> str | None:
    """Return the cluster whose data `folders` hold, None if they are new. StorageError if they are not all ours."""
    clusters: set[str] = set()
    for folder in folders:
        owner = read_owner(files, folder)
        if owner is None:
            continue
        if owner.broker_id != broker_id:
            raise StorageError(
                f"log dir {folder} holds the data of broker {owner.broker_id}, and broker.id is {broker_id}"
            )
        clusters.add(owner.cluster_id)
    if len(clusters) > 1:
        raise StorageError(f"the log dirs hold the data of different clusters: {', '.join(sorted(clusters))}")
    return next(iter(clusters), None)


def claim(files: Files, folders: Sequence[Path], owner: Owner) -> None:
    """Write `owner` into every folder that nobody has claimed. StorageError if another has, or it cannot be written."""
    content = f"version=0\nbroker.id={owner.broker_id}\ncluster.id={owner.cluster_id}\n".encode()
    for folder in folders:
        claimed = read_owner(files, folder)
        if claimed not in {None, owner}:
            raise StorageError(f"log dir {folder} belongs to {claimed}, and this is {owner}")
        if claimed is None:
            try:
                replace_file(files, folder / FILE_NAME, content)
            except OSError as error:
                raise StorageError(f"cannot write {folder / FILE_NAME}: {error.strerror or error}") from error
