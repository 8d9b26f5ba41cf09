"""Each checker sees what it is for, in the smallest history that shows it."""

from dataclasses import replace

import pytest

from highwater_history.checks import check
from highwater_history.history import (
    Assignment,
    Commit,
    Drain,
    History,
    Owned,
    Place,
    Poll,
    Position,
    Seek,
    Send,
    Step,
    Transaction,
    Trim,
)

P = Place("t", 0)


def sent(number: int, offset: int = -1, *, client: str = "p", transaction: str | None = None) -> Send:
    send = Send(client, float(number), P, f"p.{number}", acks=-1, transaction=transaction, offset=offset)
    send.outcome = "ok" if offset >= 0 else "unknown"
    return send


def read(*records: tuple[int, str], start: int = 0, only_committed: bool = False, at: float = 50.0) -> Poll:
    return Poll("c", at, P, start, list(records), high_watermark=99, only_committed=only_committed)


def drained(*records: tuple[int, str], committed: list[tuple[int, str]] | None = None, stable: int = 99) -> Drain:
    return Drain(100.0, P, list(records), list(records) if committed is None else committed, 99, stable)


def found(*steps: Step) -> set[str]:
    return {violation.invariant for violation in check(History(list(steps)))}


def test_a_good_history_has_no_violations() -> None:
    assert found(sent(1, 0), sent(2), read((0, "p.1"), (1, "p.2")), drained((0, "p.1"), (1, "p.2"))) == set()


def test_an_acknowledged_write_that_is_gone() -> None:
    assert found(sent(1, 0), drained()) == {"lost-write"}


def test_a_write_that_was_to_be_deleted_may_be_gone_and_no_other() -> None:
    trim = Trim("a", 9.0, P, before=1)
    assert found(sent(1, 0), sent(2, 1), trim, drained((1, "p.2"))) == set()
    assert found(sent(1, 0), sent(2, 1), trim, drained((0, "p.1"), (1, "p.2"))) == set()
    assert found(sent(1, 0), sent(2, 1), trim, drained()) == {"lost-write"}


def test_a_write_may_give_way_to_a_later_one_of_its_key_and_to_no_other() -> None:
    older, newer, other = (replace(sent(number, number), key=key) for number, key in ((0, "a"), (1, "a"), (2, "b")))
    assert found(older, newer, other, drained((1, "p.1"), (2, "p.2"))) == set()
    assert found(older, newer, other, drained((0, "p.0"), (2, "p.2"))) == {"lost-write"}
    assert found(older, newer, other, drained((1, "p.1"))) == {"lost-write"}
    aborted = replace(sent(1, 1, transaction="x"), key="a")
    abort = Transaction("p", 0.5, "x", wanted="abort", asked_at=2.0, outcome="ok", done_at=3.0)
    assert found(older, abort, aborted, drained((1, "p.1"), committed=[])) == {"lost-write"}
    assert found(older, abort, aborted, drained((0, "p.0"))) == set(), "nobody misses what was aborted"


def test_an_acknowledged_write_that_is_elsewhere() -> None:
    assert found(sent(1, 0), drained((7, "p.1"))) == {"inconsistent-offsets"}


def test_a_write_that_may_have_failed_may_be_gone() -> None:
    assert found(sent(1), drained()) == set()


def test_a_value_that_was_read_and_is_gone() -> None:
    assert found(sent(1), read((0, "p.1")), drained()) == {"lost-read"}


def test_two_values_at_one_offset() -> None:
    assert "inconsistent-offsets" in found(sent(1), sent(2), read((0, "p.1")), drained((0, "p.2")))


def test_one_value_at_two_offsets() -> None:
    assert found(sent(1, 0), drained((0, "p.1"), (1, "p.1"))) == {"duplicate"}


def test_a_duplicate_that_was_acknowledged_at_its_second_place() -> None:
    assert found(sent(1, 1), drained((0, "p.1"), (1, "p.1"))) == {"duplicate"}


def test_what_a_client_sent_anew_may_be_there_twice_and_not_elsewhere() -> None:
    first, second, third = sent(1, 1), sent(2, 2), sent(3, 4)
    first.is_sent_anew = third.is_sent_anew = True
    assert found(first, second, drained((0, "p.1"), (1, "p.1"), (2, "p.2"))) == set()
    assert found(first, second, drained((0, "p.1"), (1, "p.1"), (2, "p.2"), (3, "p.2"))) == {"duplicate"}
    assert found(third, drained((2, "p.3"), (3, "p.3"))) == {"inconsistent-offsets"}


def test_a_reader_that_skips_or_goes_back() -> None:
    three = [sent(number, number) for number in range(3)]
    everything = drained(*((number, f"p.{number}") for number in range(3)))
    assert found(*three, read((0, "p.0"), (2, "p.2")), everything) == {"int-poll-skip"}
    back = read((1, "p.1"), start=1, at=51.0)
    assert found(*three, read((0, "p.0"), (1, "p.1"), (2, "p.2")), back, everything) == {"int-nonmonotonic-poll"}
    assert found(Seek("c", 1.0, P, 5, "out of range")) == {"out-of-range"}


def test_a_producer_whose_writes_change_places() -> None:
    assert "int-nonmonotonic-send" in found(sent(1, 1), sent(2, 0))


def test_aborted_and_early_reads() -> None:
    aborted = Transaction("p", 0.0, "T", wanted="abort", asked_at=2.0, outcome="ok")
    one = sent(1, 0, transaction="T")
    assert found(aborted, one, read((0, "p.1"), only_committed=True)) == {"G1a"}
    assert found(aborted, one, drained((0, "p.1"), committed=[])) == set()
    committed = Transaction("p", 0.0, "T", wanted="commit", asked_at=60.0, outcome="ok")
    assert found(committed, one, read((0, "p.1"), only_committed=True)) == {"precommitted-read"}


def test_half_a_transaction() -> None:
    committed = Transaction("p", 0.0, "T", wanted="commit", asked_at=3.0, outcome="ok")
    both = sent(1, 0, transaction="T"), sent(2, 1, transaction="T")
    half = drained((0, "p.1"), (1, "p.2"), committed=[(0, "p.1")])
    assert found(committed, *both, half) == {"torn-transaction"}


def test_a_transaction_that_hangs() -> None:
    assert found(drained(stable=3)) == {"hanging-transaction"}


def test_positions_that_go_back_and_owners_that_are_two() -> None:
    commit = Commit("c", 1.0, "g", P, 7, outcome="ok", done_at=2.0)
    assert found(commit, Position("c", 3.0, "g", P, 7, 4.0)) == set()
    assert found(commit, Position("c", 3.0, "g", P, -1, 4.0)) == {"committed-offset-goes-back"}
    assert found(commit, Position("c", 3.0, "g", P, 9, 4.0)) == {"unknown-commit"}
    owners = [Assignment(member, 1.0, "g", 4, member, [P]) for member in ("a", "b")]
    assert found(*owners) == {"one-owner"}


@pytest.mark.parametrize("is_expelled", [False, True])
def test_what_is_read_by_another_before_it_was_given_up(*, is_expelled: bool) -> None:
    began = Owned("a", 1.0, "g", [P])
    ended = Owned("a", 3.0, "g", [], is_expelled=is_expelled)
    assert found(began, Owned("b", 2.0, "g", [P]), ended) == (set() if is_expelled else {"handed-over"})
    assert found(began, Owned("b", 2.0, "other", [P]), ended) == set()
    assert found(began, Owned("a", 2.0, "g", [P]), ended, Owned("b", 3.5, "g", [P])) == set()
