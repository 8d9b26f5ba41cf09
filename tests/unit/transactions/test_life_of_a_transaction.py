"""A transaction from its first partition to its end, in both versions of the protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import NO_PRODUCER_ID, ProducerId, TopicPartition
from highwater.transactions import open_transaction, timeouts
from highwater.transactions.states import LEGAL_MOVES, State, moved
from highwater.transactions.transaction import Producer

if TYPE_CHECKING:
    from tests.unit.transactions.conftest import Coordinator

LEAVES = TopicPartition("leaves", 0)
WATER = TopicPartition("water", 3)
DAY_MS = 24 * 3_600_000
TIMEOUT_MS = 60_000


def refusal_of_end(coordinator: Coordinator, producer: Producer, *, commits: bool, raises_epoch: bool) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        coordinator.end(producer, commits=commits, raises_epoch=raises_epoch)
    return refused.value.code


@pytest.mark.parametrize("state", State)
def test_only_listed_moves_are_made(state: State) -> None:
    for target in State:
        if target in LEGAL_MOVES[state]:
            assert moved(state, target) is target
        else:
            with pytest.raises(AssertionError, match="illegal transaction move"):
                moved(state, target)


def test_names_are_those_of_kafkas_tools() -> None:
    assert [state.label for state in State] == [
        "Empty",
        "Ongoing",
        "PrepareCommit",
        "PrepareAbort",
        "CompleteCommit",
        "CompleteAbort",
        "Dead",
        "PrepareEpochFence",
    ]


@pytest.mark.parametrize(
    ("commits", "prepared", "complete"),
    [
        (True, State.PREPARE_COMMIT, State.COMPLETE_COMMIT),
        (False, State.PREPARE_ABORT, State.COMPLETE_ABORT),
    ],
)
def test_a_transaction_goes_from_ongoing_over_prepare_to_complete(
    coordinator: Coordinator, *, commits: bool, prepared: State, complete: State
) -> None:
    producer = coordinator.init()
    coordinator.now_ms = 2_000
    coordinator.add(producer, LEAVES)
    coordinator.now_ms = 3_000
    coordinator.add(producer, WATER)
    assert coordinator.tea.state is State.ONGOING
    assert coordinator.tea.partitions == {LEAVES, WATER}
    assert coordinator.tea.started_at_ms == 2_000
    assert coordinator.end(producer, commits=commits) == producer
    assert coordinator.tea.state is prepared
    assert coordinator.tea.partitions == {LEAVES, WATER}
    coordinator.complete()
    assert coordinator.tea.state is complete
    assert coordinator.tea.partitions == frozenset()
    coordinator.add(producer, LEAVES)
    assert coordinator.tea.state is State.ONGOING


def test_a_partition_that_is_there_is_written_again(coordinator: Coordinator) -> None:
    """A coordinator that was replaced without hearing of it would otherwise mean an earlier transaction."""
    producer = coordinator.init()
    coordinator.add(producer, LEAVES, WATER)
    known, before = coordinator.tea, len(coordinator.log)
    coordinator.add(producer, WATER)
    assert coordinator.tea == known
    assert len(coordinator.log) == before + 1


def test_nothing_is_added_while_the_last_transaction_completes(coordinator: Coordinator) -> None:
    producer = coordinator.init()
    coordinator.add(producer, LEAVES)
    coordinator.end(producer, commits=True)
    with pytest.raises(KafkaError) as refused:
        coordinator.add(producer, WATER)
    assert refused.value.code is ErrorCode.CONCURRENT_TRANSACTIONS


def test_only_the_current_producer_may_add(coordinator: Coordinator) -> None:
    zombie = coordinator.init()
    coordinator.init()
    for producer, code in (
        (zombie, ErrorCode.PRODUCER_FENCED),
        (Producer(ProducerId(7), 0), ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ):
        with pytest.raises(KafkaError) as refused:
            coordinator.add(producer, LEAVES)
        assert refused.value.code is code


def test_a_batch_is_let_in_only_by_an_open_transaction_with_its_partition(coordinator: Coordinator) -> None:
    """KIP-890: a late batch must not open a transaction that nobody will ever end."""
    producer = coordinator.init()
    assert open_transaction.check(coordinator.shard, "tea", producer, [LEAVES]) == [ErrorCode.TRANSACTION_ABORTABLE]
    coordinator.add(producer, LEAVES)
    assert open_transaction.check(coordinator.shard, "tea", producer, [LEAVES, WATER]) == [
        ErrorCode.NONE,
        ErrorCode.TRANSACTION_ABORTABLE,
    ]
    coordinator.end(producer, commits=True)
    with pytest.raises(KafkaError) as refused:
        open_transaction.check(coordinator.shard, "tea", producer, [LEAVES])
    assert refused.value.code is ErrorCode.CONCURRENT_TRANSACTIONS
    coordinator.complete()
    assert open_transaction.check(coordinator.shard, "tea", producer, [LEAVES]) == [ErrorCode.TRANSACTION_ABORTABLE]


@pytest.mark.parametrize("raises_epoch", [False, True])
def test_an_unknown_id_cannot_end_anything(coordinator: Coordinator, *, raises_epoch: bool) -> None:
    stranger = Producer(ProducerId(7), 0)
    code = refusal_of_end(coordinator, stranger, commits=True, raises_epoch=raises_epoch)
    assert code is ErrorCode.INVALID_PRODUCER_ID_MAPPING


# EndTxn of clients that keep their epoch (transaction.version 0 and 1) -----------------------------------------------

DONE, SOON, NEVER = ErrorCode.NONE, ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize(
    ("state", "on_commit", "on_abort"),
    [
        (State.EMPTY, NEVER, NEVER),
        (State.PREPARE_COMMIT, SOON, NEVER),
        (State.PREPARE_ABORT, NEVER, SOON),
        (State.COMPLETE_COMMIT, DONE, NEVER),
        (State.COMPLETE_ABORT, NEVER, DONE),
    ],
)
def test_an_end_that_changes_nothing(
    coordinator: Coordinator, state: State, on_commit: ErrorCode, on_abort: ErrorCode
) -> None:
    """The same end again is no error; the other one is.

    Found by the simulator: a coordinator that had been replaced and did not know it answered from memory that the
    transaction was committed. It meant the one before; the producer's was aborted. So the end is written again.
    """
    producer = coordinator.init()
    coordinator.write(coordinator.tea._replace(state=state))
    for commits, expected in ((True, on_commit), (False, on_abort)):
        before = len(coordinator.log)
        if expected is ErrorCode.NONE:
            assert coordinator.end(producer, commits=commits) == producer
            assert len(coordinator.log) == before + 1
        else:
            assert refusal_of_end(coordinator, producer, commits=commits, raises_epoch=False) is expected
        assert coordinator.tea.state is state


def test_a_zombie_ends_nothing(coordinator: Coordinator) -> None:
    zombie = coordinator.init()
    current = coordinator.init()
    coordinator.add(current, LEAVES)
    for commits in (True, False):
        code = refusal_of_end(coordinator, zombie, commits=commits, raises_epoch=False)
        assert code is ErrorCode.PRODUCER_FENCED
    assert coordinator.tea.state is State.ONGOING


# EndTxn of clients that get a new epoch with every transaction (transaction.version 2) -------------------------------


@pytest.mark.parametrize("commits", [True, False])
def test_the_end_of_a_transaction_raises_the_epoch(coordinator: Coordinator, *, commits: bool) -> None:
    producer = coordinator.init()
    coordinator.add(producer, LEAVES, version=2)
    following = coordinator.end(producer, commits=commits, raises_epoch=True)
    assert following == Producer(producer.id, producer.epoch + 1)
    assert coordinator.tea.producer == following, "its markers keep out late batches of the transaction"
    coordinator.complete()
    assert coordinator.tea.producer == following


@pytest.mark.parametrize("commits", [True, False])
def test_a_lost_answer_to_an_end_is_given_again(coordinator: Coordinator, *, commits: bool) -> None:
    producer = coordinator.init()
    coordinator.add(producer, LEAVES)
    following = coordinator.end(producer, commits=commits, raises_epoch=True)
    assert refusal_of_end(coordinator, producer, commits=commits, raises_epoch=True) is SOON
    coordinator.complete()
    assert coordinator.end(producer, commits=commits, raises_epoch=True) == following
    assert refusal_of_end(coordinator, producer, commits=not commits, raises_epoch=True) is NEVER


def test_a_late_end_does_not_end_the_next_transaction(coordinator: Coordinator) -> None:
    """KAFKA-17754: an EndTxn that was on its way while the next transaction began."""
    producer = coordinator.init()
    coordinator.add(producer, LEAVES)
    following = coordinator.end(producer, commits=True, raises_epoch=True)
    coordinator.complete()
    coordinator.add(following, LEAVES)
    assert refusal_of_end(coordinator, producer, commits=True, raises_epoch=True) is ErrorCode.PRODUCER_FENCED
    assert coordinator.tea.state is State.ONGOING


@pytest.mark.parametrize("commits", [True, False])
def test_a_zombie_whose_epoch_is_one_behind_is_fenced_and_not_taken_for_one_who_asks_again(
    coordinator: Coordinator, *, commits: bool
) -> None:
    """It was told INVALID_TXN_STATE, which Kafka Streams dies of; a producer that was fenced makes way."""
    zombie = coordinator.init()
    current = coordinator.init()
    fenced = ErrorCode.PRODUCER_FENCED
    assert refusal_of_end(coordinator, zombie, commits=commits, raises_epoch=True) is fenced
    coordinator.add(current, LEAVES, version=2)
    assert refusal_of_end(coordinator, zombie, commits=commits, raises_epoch=True) is fenced
    assert coordinator.tea.state is State.ONGOING


@pytest.mark.parametrize("commits", [True, False])
def test_the_next_end_waits_for_the_markers_of_the_one_before(coordinator: Coordinator, *, commits: bool) -> None:
    """A client gives up its next transaction at once: it was told INVALID_TXN_STATE, which is the end of a producer."""
    producer = coordinator.init()
    coordinator.add(producer, LEAVES, version=2)
    following = coordinator.end(producer, commits=commits, raises_epoch=True)
    for next_commits in (True, False):
        assert refusal_of_end(coordinator, following, commits=next_commits, raises_epoch=True) is SOON
    coordinator.complete()
    assert coordinator.end(following, commits=False, raises_epoch=True).epoch == following.epoch + 1


@pytest.mark.parametrize("state", [State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT])
def test_an_abort_of_nothing_raises_the_epoch_too(coordinator: Coordinator, state: State) -> None:
    """Its batches may be on their way: partitions are added by the produce itself."""
    producer = coordinator.init()
    coordinator.write(coordinator.tea._replace(state=state))
    assert refusal_of_end(coordinator, producer, commits=True, raises_epoch=True) is NEVER
    following = coordinator.end(producer, commits=False, raises_epoch=True)
    assert following == Producer(producer.id, producer.epoch + 1)
    assert coordinator.complete().state is State.COMPLETE_ABORT


def test_the_last_epoch_is_followed_by_a_new_id(coordinator: Coordinator) -> None:
    """KAFKA-18660: the markers carry the very last epoch, and the client never sees it."""
    coordinator.init()
    producer = coordinator.set_epoch(32766)
    coordinator.add(producer, LEAVES)
    following = coordinator.end(producer, commits=True, raises_epoch=True)
    assert following == Producer(ProducerId(101), 0)
    assert coordinator.tea.producer == Producer(producer.id, 32767)
    coordinator.complete()
    assert coordinator.tea.producer == following
    assert coordinator.tea.next_producer_id == NO_PRODUCER_ID
    assert coordinator.end(producer, commits=True, raises_epoch=True) == following, "asked again"


# Time ---------------------------------------------------------------------------------------------------------------


def test_a_transaction_past_its_timeout_is_aborted_and_its_producer_fenced(coordinator: Coordinator) -> None:
    producer = coordinator.init()
    coordinator.add(producer, LEAVES)
    coordinator.now_ms += 60_000
    assert coordinator.abort_timed_out() == []
    coordinator.now_ms += 1
    (aborted,) = coordinator.abort_timed_out()
    assert (aborted.state, aborted.producer.epoch) == (State.PREPARE_ABORT, producer.epoch + 1)
    coordinator.complete()
    assert refusal_of_end(coordinator, producer, commits=True, raises_epoch=False) is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("error_ms", [-DAY_MS, DAY_MS])
def test_a_clock_that_jumps_neither_keeps_a_transaction_open_nor_ends_it(
    coordinator: Coordinator, error_ms: int
) -> None:
    producer = coordinator.init()
    coordinator.add(producer, LEAVES)
    assert coordinator.abort_timed_out() == []
    coordinator.clock_error_ms = error_ms
    coordinator.now_ms += TIMEOUT_MS
    assert coordinator.abort_timed_out() == []
    coordinator.now_ms += 1
    assert len(coordinator.abort_timed_out()) == 1


def test_a_transaction_that_began_by_a_clock_that_was_ahead_is_aborted_within_its_timeout_all_the_same(
    coordinator: Coordinator,
) -> None:
    producer = coordinator.init()
    coordinator.add(producer, LEAVES)
    coordinator.clock_error_ms = -DAY_MS  # of the broker that coordinates it now
    assert coordinator.abort_timed_out() == []
    coordinator.now_ms += TIMEOUT_MS
    assert coordinator.abort_timed_out() == []
    coordinator.now_ms += 1
    assert len(coordinator.abort_timed_out()) == 1


def test_the_next_transaction_of_a_producer_has_its_whole_timeout(coordinator: Coordinator) -> None:
    producer = coordinator.init()
    for _ in range(3):
        coordinator.add(producer, LEAVES)
        coordinator.now_ms += TIMEOUT_MS - 1
        assert coordinator.abort_timed_out() == []
        coordinator.end(producer, commits=True)
        coordinator.complete()
        coordinator.now_ms += 1


@pytest.mark.parametrize(
    ("state", "is_forgotten"),
    [
        (State.EMPTY, True),
        (State.ONGOING, False),
        (State.PREPARE_COMMIT, False),
        (State.PREPARE_ABORT, False),
        (State.COMPLETE_COMMIT, True),
        (State.COMPLETE_ABORT, True),
    ],
)
def test_an_id_is_forgotten_when_nothing_was_open_for_a_week(
    coordinator: Coordinator, state: State, *, is_forgotten: bool
) -> None:
    coordinator.init()
    coordinator.write(coordinator.tea._replace(state=state))
    assert timeouts.expired(coordinator.shard, now_ms=7 * DAY_MS) == []
    assert timeouts.expired(coordinator.shard, now_ms=8 * DAY_MS) == (["tea"] if is_forgotten else [])


def test_only_decided_transactions_are_taken_up_after_a_restart(coordinator: Coordinator) -> None:
    for state in State:
        coordinator.init(name=state.label)
        coordinator.write(coordinator.shard.transactions[state.label]._replace(state=state))
    found = {transaction.transactional_id for transaction in timeouts.prepared(coordinator.shard)}
    assert found == {"PrepareCommit", "PrepareAbort"}
