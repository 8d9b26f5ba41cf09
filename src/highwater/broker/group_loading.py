"""Rebuilding the groups of a partition from its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.broker.log_batches import batches_of
from highwater.groups import records
from highwater.model.errors import KafkaError
from highwater.model.ids import NO_PRODUCER_ID, ProducerId
from highwater.model.log_events import EventLog
from highwater.protocol.records.control import MarkerType, read_marker
from highwater.protocol.records.record import Record, read_records

if TYPE_CHECKING:
    from collections.abc import Callable

    from highwater.groups.shard import GroupShard
    from highwater.protocol.records.batch import BatchHeader
    from highwater.storage.log import Log

events = EventLog("groups")


async def load(log: Log, shard: GroupShard, *, chunk_bytes: int, now_ms: Callable[[], int]) -> int:
    """Apply every record of `log` to `shard`; return how many there were."""
    count = 0
    async for batch, header in batches_of(log, chunk_bytes=chunk_bytes):
        count += _apply_batch(batch, header, shard, now_ms())
    return count


def _apply_batch(batch: memoryview, header: BatchHeader, shard: GroupShard, now_ms: int) -> int:
    read = read_records(batch)
    if header.is_control:
        _apply_markers(read, header, shard)
        return 0
    producer_id = ProducerId(header.producer_id) if header.is_transactional else NO_PRODUCER_ID
    for record in read:
        _apply_record(record, shard, producer_id, now_ms)
    return len(read)


def _apply_markers(read: list[Record], header: BatchHeader, shard: GroupShard) -> None:
    for record in read:
        marker = read_marker(record)
        if marker is not None:
            shard.end_transaction(ProducerId(header.producer_id), committed=marker.type is MarkerType.COMMIT)


def _apply_record(record: Record, shard: GroupShard, producer_id: ProducerId, now_ms: int) -> None:
    """Apply one record. One that nobody can read costs that one, and not the whole partition."""
    try:
        decoded = records.decode(record.key or b"", record.value)
    except KafkaError as error:
        events.warning("group_record_unreadable", offset=record.offset, reason=error)
        return
    if decoded is not None:
        shard.apply(decoded, now_ms=now_ms, producer_id=producer_id)
