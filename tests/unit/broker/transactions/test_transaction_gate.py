"""Who is let in to a transaction, and in which order."""

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from highwater.broker.partitions import Partitions
from highwater.broker.transaction_check import Entry, TransactionCheck
from highwater.broker.transaction_gate import TransactionGate
from highwater.config.broker_config import BrokerConfig
from highwater.model.errors import ErrorCode
from highwater.model.ids import ProducerId, TopicPartition
from highwater.transactions.transaction import Producer

LEAVES, WATER = TopicPartition("leaves", 0), TopicPartition("water", 0)
TEA, ZOMBIE = Producer(ProducerId(7), 3), Producer(ProducerId(7), 2)
OK, BUSY, FENCED = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_PRODUCER_EPOCH


class FakeCheck:
    """A coordinator that answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[Entry, Callable[[list[ErrorCode]], None]]] = []
        self.written: set[TopicPartition] = set()
        self.was_asked = asyncio.Event()
        self.settled: Callable[[], None] | None = None

    def ask(self, entry: Entry, tell: Callable[[list[ErrorCode]], None]) -> None:
        self.asked.append((entry, tell))
        self.was_asked.set()

    def answer(self, *codes: ErrorCode) -> None:
        entry, tell = self.asked[-1]
        tell(list(codes) or [OK] * len(entry.partitions))

    def when_settled(self, transactional_id: str, call: Callable[[], None]) -> None:
        assert transactional_id == "tea"
        self.settled = call

    def has_written(self, partition: Any, producer: Producer) -> bool:
        return partition in self.written and producer == TEA


class House:
    """A gate, and those who come to it."""

    def __init__(self, **settings: str) -> None:
        self.check = FakeCheck()
        partitions = SimpleNamespace(get=TopicPartition)  # A partition is its name here.
        config = BrokerConfig({name.replace("_", "."): value for name, value in settings.items()})
        self.gate = TransactionGate(
            asyncio.get_running_loop(), config, cast("TransactionCheck", self.check), cast("Partitions", partitions)
        )
        self.told: list[tuple[str, list[ErrorCode]]] = []

    def enter(self, who: str, *partitions: TopicPartition, producer: Producer = TEA) -> None:
        entry = Entry("tea", producer, partitions, adds=True)
        self.gate.enter(entry, lambda codes: self.told.append((who, codes)))

    def is_open(self, partition: TopicPartition = LEAVES) -> bool:
        return self.gate.is_open("tea", cast("Any", partition), TEA, adds=True)


async def test_all_who_wait_are_asked_for_at_once_and_let_in_in_order() -> None:
    house = House()
    house.enter("first", LEAVES)
    house.enter("second", LEAVES, WATER)
    house.enter("third", WATER)
    assert [entry.partitions for entry, _ in house.check.asked] == [[LEAVES]]
    house.check.answer()
    assert house.told == [("first", [OK])]
    assert house.check.asked[1][0].partitions == [LEAVES, WATER]
    house.check.answer()
    assert [who for who, _ in house.told] == ["first", "second", "third"]


async def test_nobody_overtakes_those_who_wait_although_the_partition_is_open_by_now() -> None:
    """A pipelining producer's third batch was appended before its second, and refused for its sequence."""
    house = House()
    house.enter("first", LEAVES)
    house.enter("second", WATER)
    house.check.written.add(LEAVES)
    house.check.answer()
    assert not house.is_open(LEAVES)
    house.enter("third", LEAVES)
    house.check.answer()
    assert [who for who, _ in house.told] == ["first", "second", "third"]
    assert house.is_open(LEAVES)


async def test_the_coordinator_is_not_asked_for_partitions_that_are_open() -> None:
    house = House()
    house.enter("first", LEAVES)
    house.enter("second", LEAVES)
    house.check.written.add(LEAVES)
    house.check.answer()
    assert house.told == [("first", [OK]), ("second", [OK])]
    assert len(house.check.asked) == 1


async def test_one_that_is_refused_takes_along_those_of_its_producer_and_nobody_else() -> None:
    """What follows a batch that is missing cannot be appended; another producer's can."""
    house = House()
    house.enter("zombie", LEAVES, producer=ZOMBIE)
    house.enter("current", LEAVES)
    house.enter("zombie again", WATER, producer=ZOMBIE)
    house.check.answer(FENCED)
    assert house.told == [("zombie", [FENCED]), ("zombie again", [FENCED])]
    house.check.answer()
    assert house.told[2:] == [("current", [OK])]


async def test_they_wait_until_the_transaction_before_is_complete() -> None:
    house = House()
    house.enter("first", LEAVES)
    house.check.answer(BUSY)
    house.enter("second", LEAVES)
    assert house.told == []
    assert house.check.settled is not None
    house.check.settled()
    house.check.answer()
    assert house.told == [("first", [OK]), ("second", [OK])]


async def test_a_coordinator_on_another_broker_is_asked_repeatedly_but_not_for_ever() -> None:
    house = House(add_partitions_to_txn_retry_backoff_ms="1", add_partitions_to_txn_retry_backoff_max_ms="1000")
    house.enter("first", LEAVES)
    house.check.answer(BUSY)
    house.check.was_asked.clear()
    await asyncio.wait_for(house.check.was_asked.wait(), 10)
    house = House(add_partitions_to_txn_retry_backoff_max_ms="0")
    house.enter("first", LEAVES)
    house.check.answer(BUSY)
    assert house.told == [("first", [BUSY])]


@pytest.mark.parametrize(("adds", "is_open"), [(True, False), (False, True)])
async def test_without_verification_only_those_who_add_partitions_are_checked(*, adds: bool, is_open: bool) -> None:
    house = House(transaction_partition_verification_enable="false")
    assert house.gate.is_open("tea", cast("Any", LEAVES), TEA, adds=adds) is is_open
