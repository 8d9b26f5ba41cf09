"""A shard of transactions, and a producer that asks it for things."""

from collections.abc import Callable
from itertools import count

import pytest

from highwater.model.ids import ProducerId, TopicPartition
from highwater.transactions import ending, init_producer, open_transaction, records, timeouts
from highwater.transactions.shard import TransactionSettings, TransactionShard
from highwater.transactions.states import State
from highwater.transactions.transaction import Producer, Transaction

ID = "tea"
LEAVES = TopicPartition("leaves", 0)
WATER = TopicPartition("water", 3)
TIMEOUT_MS = 60_000


class Coordinator:
    """The decisions of one shard, applied as they are made, and what the log holds of them."""

    def __init__(self) -> None:
        self.shard = TransactionShard(TransactionSettings())
        self.log: list[tuple[bytes, bytes | None]] = []
        self.now_ms = 1_000
        self.deadlines = timeouts.Deadlines()
        self.clock_error_ms = 0
        """How far the wall clock has jumped."""
        self._fresh_ids = count(100)

    @property
    def tea(self) -> Transaction:
        return self.shard.transactions[ID]

    def write(self, transaction: Transaction) -> Transaction:
        self.shard.apply(transaction.transactional_id, transaction)
        self.log.append(records.encode(transaction.transactional_id, transaction))
        return transaction

    def forget(self, transactional_id: str) -> None:
        self.shard.apply(transactional_id, None)
        self.log.append(records.encode(transactional_id, None))

    def init(self, expected: Producer | None = None, *, timeout_ms: int = TIMEOUT_MS, name: str = ID) -> Producer:
        """Return the new producer; one with a transaction open gets it aborted first, as if it had asked again."""
        asked = init_producer.Asked(name, timeout_ms, expected)
        decided = self.try_init(asked)
        if decided.state is State.PREPARE_ABORT:
            self.complete(name)
            decided = self.try_init(asked)
        return decided.producer

    def try_init(self, asked: init_producer.Asked) -> Transaction:
        fresh = ProducerId(next(self._fresh_ids)) if init_producer.needs_fresh_id(self.shard, asked) else None
        return self.write(init_producer.decide(self.shard, asked, fresh_id=fresh, now_ms=self.now_ms))

    def add(self, producer: Producer, *partitions: TopicPartition, name: str = ID, version: int = 0) -> None:
        decided = open_transaction.decide_add(
            self.shard, name, producer, partitions, client_version=version, now_ms=self.now_ms
        )
        self.write(decided)

    def end(self, producer: Producer, *, commits: bool, raises_epoch: bool = False, name: str = ID) -> Producer:
        asked = ending.Asked(name, producer, commits, raises_epoch)
        fresh = ProducerId(next(self._fresh_ids)) if ending.needs_fresh_id(self.shard, asked) else None
        decision = ending.decide(self.shard, asked, fresh_id=fresh, now_ms=self.now_ms)
        self.write(decision.transaction)
        return decision.producer

    def complete(self, name: str = ID) -> Transaction:
        return self.write(self.shard.transactions[name].completed(now_ms=self.now_ms))

    def abort_timed_out(self) -> list[Transaction]:
        wall_ms = self.now_ms + self.clock_error_ms
        late = self.deadlines.timed_out(self.shard, now_ms=wall_ms, steady_ms=self.now_ms)
        return [self.write(transaction) for transaction in late]

    def set_epoch(self, epoch: int) -> Producer:
        """Give the producer of `tea` an epoch, as if it had come so far by itself."""
        self.write(self.tea._replace(producer=Producer(self.tea.producer.id, epoch)))
        return self.tea.producer

    def replayed(self) -> dict[str, Transaction]:
        """Return what another broker makes of the log."""
        again = TransactionShard(TransactionSettings())
        for key, value in self.log:
            read = records.decode(key, value)
            assert read is not None
            again.apply(*read)
        return again.transactions


@pytest.fixture
def coordinator() -> Coordinator:
    """A coordinator that knows nobody."""
    return Coordinator()


@pytest.fixture(scope="session")
def new_coordinator() -> Callable[[], Coordinator]:
    """Return what makes coordinators, for tests that need one for each example."""
    return Coordinator
