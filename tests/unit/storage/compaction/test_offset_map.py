"""The offset map: the newest offset of each key, in bounded memory."""

import tracemalloc

import pytest

from highwater.protocol.records.batch import HEADER_BYTES
from highwater.protocol.records.record import Record, build_batch
from highwater.protocol.records.spans import RecordSpans, record_spans
from highwater.storage.compaction.offset_map import OffsetMap


def spans_of(*keys: bytes | None) -> RecordSpans:
    batch = build_batch([Record(number, 0, key, b"") for number, key in enumerate(keys)])
    return record_spans(bytes(batch[HEADER_BYTES:]), len(keys))


def test_the_newest_offset_of_a_key_is_known() -> None:
    offsets = OffsetMap(100_000)
    assert offsets.put(spans_of(b"a", b"b", b"a", None), 0)
    assert offsets.put(spans_of(b"", b"x" * 1000, b"a"), 10)
    assert offsets.newest(spans_of(b"a", b"b", b"", b"x" * 1000, b"x" * 1001, None)) == [12, 1, 10, 11, None, None]
    assert len(offsets) == 4
    assert offsets.latest_offset == 12


def test_a_long_key_is_not_mistaken_for_one_that_looks_like_its_digest() -> None:
    offsets = OffsetMap(10_000)
    offsets.put(spans_of(b"x" * 100), 1)
    (remembered,) = offsets._offsets
    assert remembered is not None
    assert len(remembered) == 65
    assert offsets.newest(spans_of(remembered)) == [None]


def test_what_was_compacted_before_is_not_remembered_again() -> None:
    offsets = OffsetMap(10_000, latest_offset=6)
    assert offsets.put(spans_of(b"a", b"b", b"c", b"d"), 5)
    assert offsets.newest(spans_of(b"a", b"b", b"c", b"d")) == [None, None, 7, 8]


def test_a_full_map_ends_at_the_first_key_that_does_not_fit() -> None:
    offsets = OffsetMap(1000)
    known = [b"k0", b"k1", b"k2"]
    assert offsets.put(spans_of(*known), 0)
    assert not offsets.put(spans_of(b"k0", b"k3", b"k1", b"new", b"k2"), 3)
    assert offsets.latest_offset == 5
    assert offsets.newest(spans_of(*known, b"k3", b"new")) == [3, 5, 2, 4, None]


def test_one_key_always_fits() -> None:
    offsets = OffsetMap(0)
    assert not offsets.put(spans_of(b"a", b"b"), 0)
    assert offsets.latest_offset == 0


@pytest.mark.parametrize("key_bytes", [4, 30, 64, 500])
def test_the_memory_is_what_was_asked_for_at_most(key_bytes: int) -> None:
    budget = 4_000_000
    tracemalloc.start()
    offsets = OffsetMap(budget)
    number = 0
    while offsets.put(spans_of(*[b"%0*d" % (key_bytes, number + step) for step in range(50)]), number):
        number += 50
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert budget / 3 < peak < budget
