"""Kafka's checkpoint files: lines of numbers under a version and a count, replaced as a whole.

One per log dir for each of: recovery point, high watermark, log start offset, cleaned offset; and one per log for its
leader epochs. The layouts are Apache Kafka's (`CheckpointFile`, `OffsetCheckpointFile`).
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from highwater.model.errors import StorageError
from highwater.model.ids import TopicPartition
from highwater.storage.files import Files, read_file, replace_file

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_START_OFFSETS: Final = "log-start-offset-checkpoint"
CLEANED_OFFSETS: Final = "cleaner-offset-checkpoint"

_VERSION: Final = "0"


class DamagedCheckpoint(StorageError):
    """A checkpoint file that does not hold what it says it holds."""


def write_lines(files: Files, path: Path, lines: Sequence[str], *, sync: bool = True) -> None:
    """Replace a checkpoint file."""
    content = "\n".join((_VERSION, str(len(lines)), *lines)) + "\n"
    replace_file(files, path, content.encode(), sync=sync)


def read_lines(files: Files, path: Path) -> list[str]:
    """Return the lines of a checkpoint file, none when it is missing."""
    content = read_file(files, path)
    if content is None:
        return []
    try:
        version, count, *lines = content.decode().splitlines()
        if version.strip() == _VERSION and int(count) == len(lines):
            return lines
    except ValueError:
        pass
    raise DamagedCheckpoint(f"{path} is damaged: not a checkpoint of version {_VERSION} with its count of lines")


def write_offsets(files: Files, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a checkpoint of one offset for each partition."""
    lines = [f"{topic} {partition} {offset}" for (topic, partition), offset in sorted(offsets.items())]
    write_lines(files, path, lines)


def read_offsets(files: Files, path: Path) -> dict[TopicPartition, int]:
    """Return a checkpoint of one offset for each partition, empty when the file is missing."""
    offsets = {}
    for line in read_lines(files, path):
        try:
            topic, partition, offset = line.split(" ")
            offsets[TopicPartition(topic, int(partition))] = int(offset)
        except ValueError:
            raise DamagedCheckpoint(f"{path} is damaged: {line!r} is not a topic, a partition and an offset") from None
    return offsets
