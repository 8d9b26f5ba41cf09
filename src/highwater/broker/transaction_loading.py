"""Rebuilding the transactions of a partition from its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.broker.log_batches import batches_of
from highwater.model.errors import KafkaError
from highwater.model.log_events import EventLog
from highwater.protocol.records.record import read_records
from highwater.transactions import records

if TYPE_CHECKING:
    from highwater.storage.log import Log
    from highwater.transactions.shard import TransactionShard

events = EventLog("transactions")


async def load(log: Log, shard: TransactionShard, *, chunk_bytes: int) -> int:
    """Apply every record of `log` to `shard`; return how many there were."""
    count = 0
    async for batch, header in batches_of(log, chunk_bytes=chunk_bytes):
        if header.is_control:
            continue
        for record in read_records(batch):
            count += 1
            try:
                decoded = records.decode(record.key or b"", record.value)
            except KafkaError as error:
                # One that nobody can read costs that one, and not the whole partition.
                events.warning("transaction_record_unreadable", offset=record.offset, reason=error)
                continue
            if decoded is not None:
                shard.apply(*decoded)
    return count
