"""What of a batch stays: all of it, some records, an empty shell that keeps a producer's sequence, or nothing."""

from highwater.protocol.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    BatchHeader,
    Buffer,
)
from highwater.protocol.records.compression import Codec, compress
from highwater.protocol.records.record import assemble, read_payload, read_records, write_payload
from highwater.protocol.records.spans import RecordSpans, record_spans, select
from highwater.storage.compaction.aborted_records import AbortedRecords
from highwater.storage.compaction.newest_records import NewestRecords
from highwater.storage.compaction.plan import CompactionPlan


class BatchFilter:
    """Decides over batch after batch, in the order of the log."""

    __slots__ = ("_aborted", "_end_offset", "_newest", "_plan", "records_kept", "records_read")

    def __init__(
        self, plan: CompactionPlan, newest: NewestRecords, aborted: AbortedRecords, *, end_offset: int
    ) -> None:
        self._plan = plan
        self._newest = newest
        self._aborted = aborted
        self._end_offset = end_offset
        """From here on, keys were not looked at."""
        self.records_read = 0
        self.records_kept = 0

    def keep(self, header: BatchHeader, batch: memoryview, *, is_last: bool) -> Buffer | None:
        """Return what stays of a batch, or None. One that `is_last` stays as a shell at least: it shows where all ends.

        So does the newest batch of a producer that is still known: its sequence must survive the log being read again.
        """
        self.records_read += header.record_count
        kept = self._keep_marker(header, batch) if header.is_control else self._keep_records(header, batch)
        if kept is not None:
            return kept
        if self._is_last_of_producer(header):
            # The epoch of a producer is read from the marker's record, its sequence from the header of a batch.
            return batch if header.is_control or header.record_count == 0 else _empty(header)
        return _empty(header) if is_last else None

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        last = self._plan.producers.get(header.producer_id)
        if last is None:
            return False
        if last.last_offset >= 0:
            return header.last_offset == last.last_offset
        return header.is_control and header.producer_epoch == last.epoch

    def _keep_marker(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        """A marker without records stays for `delete.retention.ms`, counted from the round that finds it so."""
        if not self._aborted.marks_nothing(header, batch):
            self.records_kept += 1
            return batch
        horizon = header.delete_horizon_ms
        if header.record_count == 0 or (horizon is not None and horizon <= self._plan.now_ms):
            return None
        self.records_kept += 1
        return batch if horizon is not None else self._with_horizon(header, batch, set(range(header.record_count)))

    def _keep_records(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        if self._aborted.holds(header) or header.record_count == 0:
            return None
        if self._newest.replace_all_of(header.base_offset):
            return None
        if header.base_offset >= self._end_offset:
            self.records_kept += header.record_count
            return batch
        payload = read_payload(batch, header)
        spans = record_spans(payload, header.record_count)
        if header.last_offset < self._plan.first_dirty_offset:
            kept = self._newest.places_in_earlier(spans.keys)
        else:
            kept = self._newest.places_in_taken(header.base_offset, header.record_count)
        horizon = header.delete_horizon_ms
        if spans.without_value:
            tombstones = set(spans.without_value)
            if horizon is not None and horizon <= self._plan.now_ms:
                kept = [place for place in kept if place not in tombstones]
            elif horizon is None and not tombstones.isdisjoint(kept):
                self.records_kept += len(kept)
                return self._with_horizon(header, batch, {spans.offset_deltas[place] for place in kept})
        self.records_kept += len(kept)
        if len(kept) == header.record_count:
            return batch
        return _rebuilt(header, payload, spans, kept) if kept else None

    def _with_horizon(self, header: BatchHeader, batch: memoryview, deltas: set[int]) -> bytearray:
        """Write down from when on tombstones and empty markers may go (KIP-534), in place of the base timestamp."""
        horizon_ms = self._plan.now_ms + self._plan.config.delete_retention_ms
        records = [record for record in read_records(batch) if record.offset - header.base_offset in deltas]
        payload = write_payload(records, base_offset=header.base_offset, base_timestamp=horizon_ms)
        return assemble(
            header._replace(
                attributes=header.attributes | DELETE_HORIZON,
                base_timestamp=horizon_ms,
                max_timestamp=max(record.timestamp for record in records),
                record_count=len(records),
            ),
            compress(Codec(header.codec), payload),
        )


def _rebuilt(header: BatchHeader, payload: bytes, spans: RecordSpans, kept: list[int]) -> bytearray:
    """Return the batch with some of its records, byte for byte; offsets and sequences of the batch stay as they are."""
    max_timestamp = header.max_timestamp
    if not header.attributes & LOG_APPEND_TIME:
        max_timestamp = header.base_timestamp + max([spans.timestamp_deltas[number] for number in kept])
    return assemble(
        header._replace(max_timestamp=max_timestamp, record_count=len(kept)),
        compress(Codec(header.codec), select(payload, spans, kept)),
    )


def _empty(header: BatchHeader) -> bytearray:
    """Return the batch without records: offsets, producer, sequence and time of the last record stay known."""
    return assemble(
        header._replace(
            attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON), base_timestamp=NO_TIMESTAMP, record_count=0
        ),
        b"",
    )
