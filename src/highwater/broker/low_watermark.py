"""The low watermark: below it no replica on a live broker has anything (KIP-107)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from highwater.model.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Collection

    from highwater.broker.partition import Partition
    from highwater.model.ids import BrokerId

_GLANCE_S: Final = 0.05
"""Followers learn it with the answer to a fetch, which may be half a second away, and tell with the next one."""


def low_watermark(partition: Partition, live: Collection[BrokerId]) -> int:
    """Return the smallest log start offset over the replicas on live brokers."""
    own = partition.log.log_start_offset
    return own if partition.leadership is None else partition.leadership.low_watermark(own, live)


def delete_records_before(partition: Partition, offset: int) -> None:
    """Let the leader's log start at `offset`; its followers hear of it in their next answers. Raises StorageError."""
    partition.log.delete_records_before(offset)
    for reader in partition.replica_readers:
        reader.data_arrived(0)


async def all_start_at(partition: Partition, offset: int, live: Collection[BrokerId], *, deadline: float) -> ErrorCode:
    """Return when all replicas on live brokers start there, or why they do not.

    Only who leads knows where the others start.
    """
    loop = asyncio.get_running_loop()
    while partition.leads:
        if low_watermark(partition, live) >= offset:
            return ErrorCode.NONE
        if loop.time() >= deadline:
            return ErrorCode.REQUEST_TIMED_OUT
        await asyncio.sleep(_GLANCE_S)
    return ErrorCode.NOT_LEADER_OR_FOLLOWER
