"""A producer whose place was taken is kept out in every state, whichever version either of the two speaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import TopicPartition
from highwater.transactions import open_transaction
from highwater.transactions.init_producer import Asked
from highwater.transactions.states import State
from highwater.transactions.transaction import CLASSIC_VERSION, RAISES_EPOCH_VERSION, Producer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.unit.transactions.conftest import Coordinator

LEAVES, WATER = TopicPartition("leaves", 0), TopicPartition("water", 3)
STATES = [
    State.EMPTY,
    State.ONGOING,
    State.PREPARE_COMMIT,
    State.PREPARE_ABORT,
    State.COMPLETE_COMMIT,
    State.COMPLETE_ABORT,
]


def attempts(coordinator: Coordinator, zombie: Producer) -> Iterator[tuple[str, Callable[[], object]]]:
    """What a zombie may try, in the words of every version."""
    yield "add", lambda: coordinator.add(zombie, WATER)
    yield "add by writing", lambda: coordinator.add(zombie, WATER, version=RAISES_EPOCH_VERSION)
    yield "write", lambda: open_transaction.check(coordinator.shard, "tea", zombie, [LEAVES])
    yield "commit", lambda: coordinator.end(zombie, commits=True)
    yield "abort", lambda: coordinator.end(zombie, commits=False)
    yield "commit with an epoch of its own", lambda: coordinator.end(zombie, commits=True, raises_epoch=True)
    yield "abort with an epoch of its own", lambda: coordinator.end(zombie, commits=False, raises_epoch=True)
    yield "recover", lambda: coordinator.try_init(Asked("tea", 60_000, expected=zombie))


def assert_fenced(coordinator: Coordinator, zombie: Producer) -> None:
    """Nothing that it tries is done, by who decided all this or by who has read the log."""
    remembered = coordinator.tea
    for known in (remembered, coordinator.replayed()["tea"]):
        coordinator.shard.apply("tea", known)
        for what, attempt in attempts(coordinator, zombie):
            with pytest.raises(KafkaError) as refused:
                attempt()
            assert refused.value.code is ErrorCode.PRODUCER_FENCED, f"{what} in {known.state.label}"
            assert coordinator.tea == known
    coordinator.shard.apply("tea", remembered)


@pytest.mark.parametrize("raises_epoch", [False, True])
@pytest.mark.parametrize("state", STATES)
def test_whoever_was_replaced_is_fenced(coordinator: Coordinator, state: State, *, raises_epoch: bool) -> None:
    """One that speaks version 2 was told that its transaction was committed: that of who came after it was."""
    zombie = coordinator.init()
    current = coordinator.init()
    if state is not State.EMPTY:
        coordinator.add(current, LEAVES, version=RAISES_EPOCH_VERSION if raises_epoch else CLASSIC_VERSION)
    if state not in {State.EMPTY, State.ONGOING}:
        commits = state in {State.PREPARE_COMMIT, State.COMPLETE_COMMIT}
        coordinator.end(current, commits=commits, raises_epoch=raises_epoch)
    if state in {State.COMPLETE_COMMIT, State.COMPLETE_ABORT}:
        coordinator.complete()
    assert coordinator.tea.state is state
    assert_fenced(coordinator, zombie)


@pytest.mark.parametrize("version", [CLASSIC_VERSION, RAISES_EPOCH_VERSION])
def test_whoever_is_replaced_with_a_transaction_open_is_fenced_while_that_is_aborted(
    coordinator: Coordinator, version: int
) -> None:
    """It was given the epoch that fenced it, as if it had ended the transaction itself and missed the answer."""
    zombie = coordinator.init()
    coordinator.add(zombie, LEAVES, version=version)
    newcomer = Asked("tea", 60_000)
    assert coordinator.try_init(newcomer).state is State.PREPARE_ABORT
    assert_fenced(coordinator, zombie)
    assert coordinator.complete().state is State.COMPLETE_ABORT
    assert_fenced(coordinator, zombie)
    assert coordinator.try_init(newcomer).state is State.EMPTY
    assert_fenced(coordinator, zombie)


def test_who_recovers_from_an_error_is_not_a_zombie(coordinator: Coordinator) -> None:
    """What it left open is its own, and aborted."""
    producer = coordinator.init()
    coordinator.add(producer, LEAVES, version=RAISES_EPOCH_VERSION)
    recovers = Asked("tea", 60_000, expected=producer)
    assert coordinator.try_init(recovers).state is State.PREPARE_ABORT


@pytest.mark.parametrize("commits", [True, False])
def test_who_ended_its_transaction_and_missed_the_answer_may_recover(
    coordinator: Coordinator, *, commits: bool
) -> None:
    producer = coordinator.init()
    coordinator.add(producer, LEAVES, version=RAISES_EPOCH_VERSION)
    following = coordinator.end(producer, commits=commits, raises_epoch=True)
    with pytest.raises(KafkaError) as refused:
        coordinator.init(expected=producer)
    assert refused.value.code is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.complete()
    assert coordinator.init(expected=producer) == following
