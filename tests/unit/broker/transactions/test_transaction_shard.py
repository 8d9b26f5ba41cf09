"""What a coordinator writes before it answers."""

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from highwater.broker.transaction_shard import LoadedTransactions
from highwater.model.ids import ProducerId, TopicPartition
from highwater.transactions import records
from highwater.transactions.shard import TransactionSettings, TransactionShard
from highwater.transactions.states import State
from highwater.transactions.transaction import Producer, Transaction

LEAVES = TopicPartition("leaves", 0)
TEA = Transaction("tea", Producer(ProducerId(7), 3), State.ONGOING, 60_000, 1, partitions=frozenset({LEAVES}))


class FakeJournal:
    """Takes everything in."""

    def __init__(self, replicas: tuple[int, ...], *, is_busy: bool) -> None:
        self.partition = SimpleNamespace(replicas=replicas)
        self.is_busy = is_busy
        self.written: list[tuple[bytes, bytes | None]] = []

    def write(self, written: Iterable[tuple[bytes, bytes | None]]) -> None:
        self.written += written


@pytest.mark.parametrize(
    ("replicas", "is_busy", "name", "expected"),
    [
        ((1, 2, 3), False, "tea", [records.encode("tea", TEA)]),
        ((1, 2, 3), True, "tea", []),  # What is under way confirms it as well.
        ((1,), False, "tea", []),  # Nobody else can be the coordinator.
        ((1, 2, 3), False, "coffee", []),
    ],
)
def test_what_is_told_about_an_open_transaction_is_in_the_log_of_the_coordinator_of_now(
    *,
    replicas: tuple[int, ...],
    is_busy: bool,
    name: str,
    expected: list[Any],
) -> None:
    """One that was replaced unawares let a late batch into a transaction that had ended, and so it hung."""
    core = TransactionShard(TransactionSettings())
    core.apply("tea", TEA)
    journal = FakeJournal(replicas, is_busy=is_busy)
    nothing = cast("Any", None)
    shard = LoadedTransactions(
        core,
        cast("Any", journal),
        loop=nothing,
        wall_ms=lambda: 1,
        markers=nothing,
        deletions=nothing,
        metrics=nothing,
    )
    shard.confirm(name)
    assert journal.written == expected
    assert core.transactions == {"tea": TEA}
