"""The checker finds what it should: every anomaly, made by hand."""

import pytest

from highwater.testing.history import History

P = ("topic", 0)


def a_history(*acknowledged: tuple[bytes, int]) -> History:
    history = History()
    for value, offset in acknowledged:
        history.sent("writer", P, value)
        history.acknowledged(P, value, offset)
    return history


def names(history: History, log: dict[int, bytes]) -> list[str]:
    return [anomaly.name for anomaly in history.anomalies({P: log})]


def test_nothing_is_wrong_with_an_ordinary_history() -> None:
    history = a_history((b"a", 0), (b"b", 2))
    history.sent("writer", P, b"unknown outcome, not written")
    history.sent("other", P, b"unknown outcome, written")
    for offset, value in ((0, b"a"), (1, b"unknown outcome, written"), (2, b"b")):
        history.polled("reader", P, offset, value)
    log = {0: b"a", 1: b"unknown outcome, written", 2: b"b"}
    assert names(history, log) == []
    assert history.unseen("reader", {P: log}) == 0
    assert history.acknowledged_count == 2


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ({0: b"a"}, ["lost-write"]),
        ({0: b"a", 1: b"a"}, ["duplicate", "inconsistent-offsets"]),
        ({0: b"a", 1: b"b", 2: b"who?"}, ["never-sent"]),
        ({0: b"b", 1: b"a"}, ["inconsistent-offsets", "inconsistent-offsets"]),
    ],
)
def test_what_is_acknowledged_is_there_once_at_its_offset(log: dict[int, bytes], expected: list[str]) -> None:
    assert names(a_history((b"a", 0), (b"b", 1)), log) == expected


def test_writes_of_one_writer_keep_their_order() -> None:
    assert names(a_history((b"a", 1), (b"b", 0)), {0: b"b", 1: b"a"}) == ["int-nonmonotonic-send"]


@pytest.mark.parametrize(
    ("polls", "expected"),
    [
        ([(0, b"a"), (2, b"c")], ["int-poll-skip"]),
        ([(1, b"b"), (0, b"a")], ["int-nonmonotonic-poll"]),
        ([(0, b"z")], ["inconsistent-offsets"]),
        ([(0, b"a"), (1, b"b"), (2, b"c"), (3, b"d")], ["unread"]),
    ],
)
def test_a_reader_gets_everything_in_order_and_what_it_got_stays(
    polls: list[tuple[int, bytes]], expected: list[str]
) -> None:
    history = a_history((b"a", 0), (b"b", 1), (b"c", 2))
    for offset, value in polls:
        history.polled("reader", P, offset, value)
    assert names(history, {0: b"a", 1: b"b", 2: b"c"}) == expected


def test_what_was_taken_back_is_never_seen() -> None:
    history = a_history()
    history.sent("writer", P, b"a")
    history.aborted(P, b"a")
    history.polled("reader", P, 0, b"a")
    assert names(history, {0: b"a"}) == ["G1a", "G1a"]


def test_what_a_reader_has_not_had_is_counted() -> None:
    history = a_history((b"a", 0), (b"b", 1))
    history.polled("reader", P, 0, b"a")
    assert history.unseen("reader", {P: {0: b"a", 1: b"b"}}) == 1
