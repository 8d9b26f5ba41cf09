"""Configs in the cluster's memory are changed as they are there, whoever else changes them at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.coordination import records
from highwater.coordination.port import BadVersion, NodeExists, NoNode
from highwater.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from highwater.coordination.port import Coordination

_ATTEMPTS: Final = 20


async def change_configs(
    store: Coordination, path: str, change: Callable[[dict[str, str]], dict[str, str]], *, may_create: bool
) -> dict[str, str] | None:
    """Store what `change` makes of the configs at `path`; return that, or None if they are so already.

    The write is conditional: if somebody else was first, `change` is asked again with what is there then, so that no
    broker's edit undoes another's. Without `may_create`, NoNode says that what they belong to is gone.
    """
    for _ in range(_ATTEMPTS):
        (node,) = await store.read_many([path])
        if node is None and not may_create:
            raise NoNode(path)
        stored = {} if node is None else records.decode_configs(path, node.data)
        changed = change(stored)
        if changed == stored:
            return None
        try:
            if node is None:
                await store.create(path, records.encode_configs(changed))
            else:
                await store.write(path, records.encode_configs(changed), version=node.version)
        except (BadVersion, NodeExists, NoNode):
            continue
        return changed
    raise KafkaError("others change these configs all the time; try again", code=ErrorCode.REQUEST_TIMED_OUT)
