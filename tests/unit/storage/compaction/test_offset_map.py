"""The offset map: the newest offset of each key, in bounded memory."""

import tracemalloc

import pytest

from highwater.storage.compaction.offset_map import OffsetMap


def test_the_newest_offset_of_a_key_is_known() -> None:
    offsets = OffsetMap(10_000)
    for offset, key in enumerate([b"a", b"b", b"a", b"", b"x" * 1000, b"a"]):
        assert offsets.put(key, offset)
    assert [offsets.newest(key) for key in (b"a", b"b", b"", b"x" * 1000, b"x" * 1001)] == [5, 1, 3, 4, -1]
    assert len(offsets) == 4


def test_a_long_key_is_not_mistaken_for_one_that_looks_like_its_digest() -> None:
    offsets = OffsetMap(10_000)
    offsets.put(b"x" * 100, 1)
    (remembered,) = offsets._offsets
    assert len(remembered) == 65
    assert offsets.newest(remembered) == -1


def test_a_full_map_takes_newer_offsets_of_the_keys_it_knows_and_no_others() -> None:
    offsets = OffsetMap(1000)
    taken = 0
    while offsets.put(b"%d" % taken, taken):
        taken += 1
    assert 2 < taken < 10
    assert offsets.put(b"0", 99)
    assert offsets.newest(b"0") == 99
    assert not offsets.put(b"other", 100)


def test_one_key_always_fits() -> None:
    assert OffsetMap(0).put(b"key", 0)


@pytest.mark.parametrize("key_bytes", [4, 30, 64, 500])
def test_the_memory_is_what_was_asked_for_at_most(key_bytes: int) -> None:
    budget = 4_000_000
    tracemalloc.start()
    offsets = OffsetMap(budget)
    number = 0
    while offsets.put(b"%0*d" % (key_bytes, number), 10**12 + number):
        number += 1
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert budget / 3 < peak < budget
