"""The newest record of each key, found from the end to the beginning in bounded memory."""

import tracemalloc

import pytest

from highwater.storage.compaction.newest_records import NewestRecords


def test_the_last_record_of_a_key_is_the_newest() -> None:
    newest = NewestRecords(100_000)
    assert newest.take(10, [b"", b"x" * 1000, b"a"])
    assert newest.take(4, [b"a", b"b", b"b", None])
    assert newest.take(2, [b"a", b"x" * 1000])
    assert newest.places_in_taken(10, 3) == [0, 1, 2]
    assert newest.places_in_taken(4, 4) == [2]
    assert newest.places_in_taken(2, 2) == []
    assert [newest.replace_all_of(base_offset) for base_offset in (2, 4, 10)] == [True, False, False]


def test_what_was_not_looked_at_stays_and_what_is_before_stays_if_its_key_is_new() -> None:
    newest = NewestRecords(100_000)
    newest.take(4, [b"a", b"b"])
    assert newest.places_in_taken(9, 2) == [0, 1]
    assert not newest.replace_all_of(9)
    assert newest.places_in_earlier([b"c", b"a", None, b"d", b"b"]) == [0, 3]


def test_a_long_key_is_not_mistaken_for_one_that_looks_like_its_digest() -> None:
    newest = NewestRecords(10_000)
    newest.take(1, [b"x" * 100, b"x" * 101])
    assert newest.places_in_taken(1, 2) == [0, 1]
    (remembered, _) = newest._keys
    assert remembered is not None
    assert len(remembered) == 65
    assert newest.places_in_earlier([remembered, b"x" * 100]) == [0]


def test_a_key_that_is_there_already_takes_no_room() -> None:
    newest = NewestRecords(700)
    assert newest.take(5, [b"a", b"a"])
    assert newest.take(3, [b"a", b"a"])
    assert not newest.take(1, [b"b", b"c"])


@pytest.mark.parametrize("key_bytes", [4, 30, 64, 500])
def test_the_memory_is_what_was_asked_for_at_most(key_bytes: int) -> None:
    budget = 16_000_000
    tracemalloc.start()
    newest = NewestRecords(budget)
    number = 10_000_000
    while newest.take(number, [b"%0*d" % (key_bytes, number + step) for step in range(50)]):
        number -= 50
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert budget / 3 < peak < budget
