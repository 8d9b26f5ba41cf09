"""Record spans: the same records that `read_records` finds, without their contents."""

from collections.abc import Callable
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.protocol.records.batch import HEADER_BYTES
from highwater.protocol.records.errors import InvalidRecord
from highwater.protocol.records.record import Record, build_batch, read_records
from highwater.protocol.records.spans import record_keys, record_spans, select

contents = st.tuples(
    st.integers(-(2**40), 2**40),
    st.none() | st.binary(max_size=300),
    st.none() | st.binary(max_size=300),
    st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2).map(tuple),
)


@given(st.lists(st.tuples(st.integers(1, 1000), contents), min_size=1, max_size=8))
def test_spans_are_the_records(found: list[tuple[int, tuple[int, bytes | None, bytes | None, tuple[()]]]]) -> None:
    offset = -1
    records = []
    for step, (timestamp, key, value, headers) in found:
        offset += step
        records.append(Record(offset, timestamp, key, value, headers))
    batch = bytes(build_batch(records))
    payload = batch[HEADER_BYTES:]
    spans = record_spans(payload, len(records))
    assert read_records(batch) == records
    assert spans.offset_deltas == [record.offset for record in records]
    assert spans.keys == [record.key for record in records]
    assert record_keys(payload, len(records)) == spans.keys
    assert spans.without_value == [place for place, record in enumerate(records) if record.value is None]
    assert spans.timestamp_deltas == [record.timestamp - records[0].timestamp for record in records]
    assert spans.longest_key == max(len(record.key or b"") for record in records)
    everything = list(range(len(records)))
    assert select(payload, spans, everything) == payload
    assert b"".join(select(payload, spans, [number]) for number in everything) == payload


@given(st.binary(max_size=60), st.integers(0, 5))
def test_garbage_is_refused_or_a_record(payload: bytes, count: int) -> None:
    try:
        spans = record_spans(payload, count)
    except InvalidRecord:
        return
    assert len(spans) == count


@given(st.binary(max_size=60), st.integers(0, 5))
def test_whose_keys_are_read_alone_they_are_the_same(payload: bytes, count: int) -> None:
    """Their offsets are not looked at then, so that more is taken for records."""
    try:
        keys = record_keys(payload, count)
    except InvalidRecord:
        with pytest.raises(InvalidRecord):
            record_spans(payload, count)
        return
    assert len(keys) == count
    with suppress(InvalidRecord):
        assert record_spans(payload, count).keys == keys


@pytest.mark.parametrize("read", [record_keys, record_spans])
@pytest.mark.parametrize("cut", range(1, 12))
def test_a_record_that_is_cut_short_is_refused(read: Callable[[bytes, int], object], cut: int) -> None:
    payload = bytes(build_batch([Record(0, 0, b"key", b"value")]))[HEADER_BYTES:]
    with pytest.raises(InvalidRecord):
        read(payload[:-cut], 1)
    with pytest.raises(InvalidRecord, match="follow the last record"):
        read(payload + b"\x00", 1)
