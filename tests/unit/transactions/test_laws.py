"""What holds for transactions whatever producers do, and whenever their coordinator dies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import TopicPartition
from highwater.transactions import open_transaction
from highwater.transactions.init_producer import Asked
from highwater.transactions.states import LEGAL_MOVES, State
from highwater.transactions.transaction import NO_EPOCH, Producer, Transaction

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.transactions.conftest import Coordinator

PARTITIONS = [TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)]
INSTANCES = range(3)
REFUSALS = {
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.PRODUCER_FENCED,
    ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    ErrorCode.INVALID_TXN_STATE,
}

instances = st.sampled_from(INSTANCES)
actions = st.one_of(
    st.tuples(st.just("init"), instances, st.booleans()),
    st.tuples(st.just("add"), instances, st.sets(st.sampled_from(PARTITIONS), min_size=1)),
    st.tuples(st.just("add"), instances, st.sets(st.sampled_from(PARTITIONS), min_size=1)),
    st.tuples(st.just("end"), instances, st.booleans()),
    st.tuples(st.just("end"), instances, st.booleans()),
    st.tuples(st.just("markers")),
    st.tuples(st.just("markers")),
    st.tuples(st.just("wait"), st.sampled_from([1, 30_000, 70_000])),
    st.tuples(st.just("crash")),
)


class Play:
    """Several instances that believe to be the producer of one id, and partitions that get its markers."""

    def __init__(self, coordinator: Coordinator, *, raises_epoch: bool, first_epoch: int) -> None:
        self.coordinator = coordinator
        self.raises_epoch = raises_epoch
        self.held: dict[int, Producer] = {}
        self.outcomes: list[tuple[bool, frozenset[TopicPartition]]] = []
        coordinator.init()
        coordinator.set_epoch(first_epoch)
        self._before = coordinator.tea

    def do(self, action: str, *arguments: object) -> None:
        self._before = self.coordinator.tea
        getattr(self, f"_{action}")(*arguments)
        self._check(action)

    def _init(self, instance: int, recovers: bool) -> None:  # noqa: FBT001
        expected = self.held.get(instance) if recovers else None
        self._attempt(lambda: self._given(instance, Asked("tea", 60_000, expected)))

    def _given(self, instance: int, asked: Asked) -> None:
        decided = self.coordinator.try_init(asked)
        if decided.state is State.EMPTY:
            self.held[instance] = decided.producer

    def _add(self, instance: int, partitions: set[TopicPartition]) -> None:
        if instance in self.held:
            self._attempt(lambda: self.coordinator.add(self.held[instance], *partitions))

    def _end(self, instance: int, commits: bool) -> None:  # noqa: FBT001
        if instance in self.held:
            self._attempt(lambda: self._ended(instance, commits=commits))

    def _ended(self, instance: int, *, commits: bool) -> None:
        producer = self.coordinator.end(self.held[instance], commits=commits, raises_epoch=self.raises_epoch)
        self.held[instance] = producer

    def _attempt(self, action: Callable[[], None]) -> None:
        before = self.coordinator.tea
        refusal = refusal_of(action)
        if refusal is not None:
            assert refusal in REFUSALS
            assert self.coordinator.tea == before, "what is refused changes nothing"

    def _markers(self) -> None:
        transaction = self.coordinator.tea
        if transaction.state.is_prepared:
            self.outcomes.append((transaction.state is State.PREPARE_COMMIT, transaction.partitions))
            self.coordinator.complete()

    def _wait(self, ms: int) -> None:
        self.coordinator.now_ms += ms
        self.coordinator.abort_timed_out()

    def _crash(self) -> None:
        """Another coordinator takes over, with what the log says."""
        replayed = self.coordinator.replayed()
        assert replayed == {name: durable(known) for name, known in self.coordinator.shard.transactions.items()}
        self.coordinator.shard.transactions = replayed

    def _check(self, action: str) -> None:
        before, now = self._before, self.coordinator.tea
        if action not in {"crash", "wait"} and now.state is not before.state:
            reachable = LEGAL_MOVES[before.state]
            assert now.state in reachable
        assert 0 <= now.producer.epoch <= 32767
        if now.producer.id == before.producer.id:
            assert now.producer.epoch >= before.producer.epoch
        if before.state.is_prepared and now.state is not before.state:
            assert now.state in LEGAL_MOVES[before.state], "what was prepared completes as it was decided"
        assert all(producer.epoch <= 32766 for producer in self.held.values()), "the last epoch is never given out"


def durable(transaction: Transaction) -> Transaction:
    return transaction._replace(last_epoch=NO_EPOCH)


@settings(max_examples=200, deadline=None)
@given(
    history=st.lists(actions, max_size=40),
    raises_epoch=st.booleans(),
    first_epoch=st.sampled_from([0, 32760, 32764, 32765, 32766]),
)
def test_whatever_happens_states_and_epochs_only_move_as_they_may(
    new_coordinator: Callable[[], Coordinator],
    history: list[tuple[object, ...]],
    *,
    raises_epoch: bool,
    first_epoch: int,
) -> None:
    play = Play(new_coordinator(), raises_epoch=raises_epoch, first_epoch=first_epoch)
    for action, *arguments in history:
        play.do(str(action), *arguments)


@settings(max_examples=100, deadline=None)
@given(history=st.lists(actions, max_size=30), raises_epoch=st.booleans())
def test_whatever_happened_a_new_instance_gets_to_work_and_all_others_are_kept_out(
    new_coordinator: Callable[[], Coordinator], history: list[tuple[object, ...]], *, raises_epoch: bool
) -> None:
    """No transaction hangs: what is decided completes, what is open is aborted. And a zombie writes nothing."""
    play = Play(new_coordinator(), raises_epoch=raises_epoch, first_epoch=0)
    for action, *arguments in history:
        play.do(str(action), *arguments)
    zombies = list(play.held.values())
    coordinator = play.coordinator
    if coordinator.tea.state.is_prepared:
        coordinator.complete()
    current = coordinator.init()
    coordinator.add(current, *PARTITIONS)
    for zombie in zombies:
        for refused in (
            lambda zombie=zombie: coordinator.add(zombie, *PARTITIONS),
            lambda zombie=zombie: coordinator.end(zombie, commits=True, raises_epoch=raises_epoch),
            lambda zombie=zombie: open_transaction.check(coordinator.shard, "tea", zombie, PARTITIONS),
        ):
            assert refusal_of(refused) in REFUSALS
    assert coordinator.tea.state is State.ONGOING
    coordinator.end(current, commits=True, raises_epoch=raises_epoch)
    assert coordinator.tea.partitions == set(PARTITIONS), "a marker for each, or for none"
    assert coordinator.complete().state is State.COMPLETE_COMMIT


def refusal_of(action: Callable[[], object]) -> ErrorCode | None:
    try:
        action()
    except KafkaError as error:
        return error.code
    return None
