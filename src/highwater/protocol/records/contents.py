"""The checks that need a look at the records inside a batch, for the topics whose settings ask for one."""

from highwater.protocol.records.batch import Buffer, read_header
from highwater.protocol.records.errors import InvalidRecord, InvalidTimestamp
from highwater.protocol.records.record import Record, read_records
from highwater.protocol.records.validate import check_timestamp


def read_produced_records(batch: Buffer) -> list[Record]:
    """Return the records of a producer's batch, whose offsets must count up without a gap.

    Gaps are for compaction to make; `read_records` alone allows them.
    """
    records = read_records(batch)
    header = read_header(batch)
    if len(records) != header.last_offset_delta + 1:
        raise InvalidRecord(
            f"batch holds {len(records)} records, but its last offset delta is {header.last_offset_delta}"
        )
    return records


def check_keys(records: list[Record]) -> None:
    """Refuse a record without a key: a compacted topic would not know what it replaces."""
    for index, record in enumerate(records):
        if record.key is None:
            raise InvalidRecord("a record without a key has no place in a compacted topic", record_index=index)


def check_record_timestamps(records: list[Record], *, now_ms: int, before_max_ms: int, after_max_ms: int) -> None:
    """Refuse any record that is too far from the broker's clock, see `validate.check_timestamps`."""
    for index, record in enumerate(records):
        try:
            check_timestamp(record.timestamp, now_ms=now_ms, before_max_ms=before_max_ms, after_max_ms=after_max_ms)
        except InvalidTimestamp as error:
            raise InvalidTimestamp(error.message, record_index=index) from None
