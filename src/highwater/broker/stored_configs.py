"""Configs in the cluster's memory are changed as they are there, whoever else changes them at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.coordination import paths, records
from highwater.coordination.port import BadVersion, Create, NodeExists, NoNode, Write
from highwater.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from highwater.coordination.port import Coordination, Operation

_ATTEMPTS: Final = 20
_CONFIGS: Final = "/config/"


async def change_configs(
    store: Coordination,
    path: str,
    change: Callable[[dict[str, str]], dict[str, str]],
    *,
    may_create: bool,
    tells_others: bool,
) -> dict[str, str]:
    """Store what `change` makes of the configs at `path`, and return that; if they are so already, nothing is written.

    The write is conditional: if somebody else was first, `change` is asked again with what is there then, so that no
    broker's edit undoes another's. Without `may_create`, NoNode says that what they belong to is gone.

    With `tells_others` a note for the other brokers is made by the same write. Who is cut off here does not know what
    became of it, but there are no configs that nobody was told of; this broker reads the notes too.
    """
    for _ in range(_ATTEMPTS):
        (node,) = await store.read_many([path])
        if node is None and not may_create:
            raise NoNode(path)
        stored = {} if node is None else records.decode_configs(path, node.data)
        changed = change(stored)
        if changed == stored:
            return stored
        data = records.encode_configs(changed)
        operations: list[Operation] = [Create(path, data) if node is None else Write(path, data, node.version)]
        if tells_others:
            note = records.encode_config_change(path.removeprefix(_CONFIGS))
            operations.append(Create(paths.CONFIG_CHANGE, note, sequence=True))
        try:
            await store.multi(operations)
        except (BadVersion, NodeExists, NoNode):
            continue
        return changed
    raise KafkaError("others change these configs all the time; try again", code=ErrorCode.REQUEST_TIMED_OUT)
