"""The controller, step by step. The store below writes what it is told, as ZooKeeper would."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from highwater.controller.controller import Controller, returned
from highwater.controller.events import (
    BalanceDue,
    BrokersChanged,
    DeletionDecided,
    Effect,
    ElectionAsked,
    ElectionKind,
    Event,
    FinishDeletion,
    IsrNoticed,
    LogDirsFailed,
    MovesAsked,
    PartitionsAdded,
    ReplicasFailed,
    ReplicasServed,
    ReplicasStopped,
    ShutdownAsked,
    StatesWritten,
    StopReplicas,
    TellAll,
    TellEverybody,
    TellReplicas,
    TookOver,
    TopicCreated,
    UncleanElectionChanged,
    WriteAssignments,
    WriteStates,
)
from highwater.controller.partition import Assignment, ControlledPartition, ControlledTopic, Leadership
from highwater.model.ids import NO_BROKER, BrokerId, LeaderEpoch, TopicId, TopicPartition

ONE, TWO, THREE, FOUR = (BrokerId(number) for number in (1, 2, 3, 4))
ALL = {ONE: 101, TWO: 102, THREE: 103}
A0 = TopicPartition("a", 0)


def partition(
    *replicas: BrokerId, leader: BrokerId | None = None, isr: tuple[BrokerId, ...] | None = None
) -> ControlledPartition:
    leadership = Leadership(replicas[0] if leader is None else leader, LeaderEpoch(0), isr or replicas)
    return ControlledPartition(Assignment(replicas), leadership, version=0)


def topic(name: str, *partitions: ControlledPartition, allows_unclean: bool = False) -> ControlledTopic:
    return ControlledTopic(
        name, TopicId(name.encode().ljust(16)), dict(enumerate(partitions)), allows_unclean=allows_unclean
    )


class World:
    """A controller, and a store that it writes to; conflicts are made by writing to the store behind its back."""

    def __init__(self, *topics: ControlledTopic, brokers: Mapping[BrokerId, int] = ALL) -> None:
        self.core = Controller()
        self.store: dict[TopicPartition, tuple[Leadership, int]] = {}
        self.leaders: dict[tuple[TopicPartition, int], BrokerId] = {}
        self.told: list[Effect] = []
        for one in topics:
            for index, held in one.partitions.items():
                self.store[TopicPartition(one.name, index)] = (held.leadership, held.version)
        self.happens(TookOver(brokers, {one.name: one for one in topics}, frozenset()))

    def happens(self, event: Event) -> list[Effect]:
        """Step, write what is to be written, and return everything else that was wanted."""
        queue = self.core.step(event)
        others: list[Effect] = []
        while queue:
            effect = queue.pop(0)
            if isinstance(effect, WriteStates):
                queue = self.core.step(self._write(effect)) + queue
            else:
                others.append(effect)
        self.told += others
        return others

    def brokers_are(self, brokers: Mapping[BrokerId, int]) -> list[Effect]:
        back = returned(self.core.brokers, brokers)
        first = self.happens(BrokersChanged({b: e for b, e in brokers.items() if b not in back})) if back else []
        return first + self.happens(BrokersChanged(brokers))

    def leader_writes_isr(self, name: TopicPartition, isr: tuple[BrokerId, ...]) -> None:
        """A leader changes its in-sync set; the controller does not know yet."""
        leadership, version = self.store[name]
        self.store[name] = (leadership._replace(isr=isr), version + 1)

    def _write(self, effect: WriteStates) -> StatesWritten:
        written, refused = {}, {}
        for name, (leadership, version) in effect.changes.items():
            there, there_version = self.store[name]
            if version != there_version:
                refused[name] = (there, there_version)
                continue
            assert leadership.epoch == there.epoch + 1
            assert leadership.leader == NO_BROKER or leadership.leader in leadership.isr
            assert self.leaders.setdefault((name, leadership.epoch), leadership.leader) == leadership.leader
            written[name] = self.store[name] = (leadership, version + 1)
        return StatesWritten(written, refused)

    def of(self, name: TopicPartition = A0) -> Leadership:
        return self.store[name][0]


def lost(*brokers: BrokerId) -> BrokersChanged:
    return BrokersChanged({broker: epoch for broker, epoch in ALL.items() if broker not in brokers})


def test_a_new_controller_tells_every_broker_everything() -> None:
    world = World(topic("a", partition(ONE, TWO)))
    assert world.told == [
        TellReplicas(ONE, frozenset({A0})),
        TellAll(ONE),
        TellReplicas(TWO, frozenset({A0})),
        TellAll(TWO),
        TellReplicas(THREE, frozenset()),
        TellAll(THREE),
    ]


def test_the_first_live_in_sync_replica_takes_over_and_the_dead_one_is_out_of_sync() -> None:
    world = World(topic("a", partition(ONE, TWO, THREE, isr=(ONE, THREE, TWO))))
    told = world.happens(lost(ONE))
    assert world.of() == Leadership(TWO, LeaderEpoch(1), (THREE, TWO))
    assert told == [
        TellEverybody(frozenset()),
        TellReplicas(TWO, frozenset({A0})),
        TellReplicas(THREE, frozenset({A0})),
        TellEverybody(frozenset({A0})),
    ]


def test_a_dead_follower_leaves_the_in_sync_set_at_once() -> None:
    """Otherwise every acks=all write would wait for the leader to notice, replica.lag.time.max.ms later."""
    world = World(topic("a", partition(ONE, TWO, THREE)))
    world.happens(lost(THREE))
    assert world.of() == Leadership(ONE, LeaderEpoch(1), (ONE, TWO))


def test_without_a_live_in_sync_replica_there_is_no_leader_until_one_returns() -> None:
    world = World(topic("a", partition(ONE, TWO, THREE, isr=(ONE, TWO))))
    world.happens(lost(ONE, TWO))
    assert world.of() == Leadership(NO_BROKER, LeaderEpoch(1), (ONE, TWO))
    world.happens(BrokersChanged({TWO: 202, THREE: 103}))
    assert world.of() == Leadership(TWO, LeaderEpoch(2), (TWO,))


def test_a_topic_that_allows_it_is_led_by_any_replica_that_is_left() -> None:
    world = World(topic("a", partition(ONE, TWO, isr=(ONE,)), allows_unclean=True))
    world.happens(lost(ONE))
    assert world.of() == Leadership(TWO, LeaderEpoch(1), (TWO,))


def test_allowing_unclean_elections_elects_at_once() -> None:
    world = World(topic("a", partition(ONE, TWO, isr=(ONE,))))
    world.happens(lost(ONE))
    assert world.of().leader == NO_BROKER
    world.happens(UncleanElectionChanged("a", allowed=True))
    assert world.of().leader == TWO


def test_a_leader_that_was_gone_in_between_does_not_lead_on() -> None:
    """It may have lost the end of its log; under the same epoch it would make its followers cut theirs."""
    world = World(topic("a", partition(ONE, TWO)))
    world.brokers_are({**ALL, ONE: 201})
    assert world.of() == Leadership(TWO, LeaderEpoch(1), (TWO,))
    assert TellAll(ONE) in world.told[-6:]


def test_a_write_that_came_too_late_is_decided_anew() -> None:
    """The leader had taken TWO out of sync just before it died: TWO must not lead."""
    world = World(topic("a", partition(ONE, TWO, THREE)))
    world.leader_writes_isr(A0, (ONE, THREE))
    world.happens(lost(ONE))
    assert world.of() == Leadership(THREE, LeaderEpoch(1), (THREE,))


def test_a_broker_that_wants_to_stop_is_relieved_of_what_others_can_lead() -> None:
    alone = TopicPartition("a", 1)
    world = World(topic("a", partition(ONE, TWO), partition(ONE), partition(TWO, ONE)))
    world.happens(ShutdownAsked(ONE, ALL[ONE]))
    assert world.of() == Leadership(TWO, LeaderEpoch(1), (TWO,))
    assert world.of(alone) == Leadership(ONE, LeaderEpoch(0), (ONE,))
    assert world.of(TopicPartition("a", 2)) == Leadership(TWO, LeaderEpoch(1), (TWO,))
    assert world.core.led_by(ONE) == []


def test_a_replica_whose_disk_failed_does_not_lead() -> None:
    world = World(topic("a", partition(ONE, TWO)))
    world.happens(ReplicasFailed(ONE, ALL[ONE], frozenset({A0})))
    assert world.of() == Leadership(TWO, LeaderEpoch(1), (TWO,))


def test_a_replica_that_is_served_again_may_be_in_sync_and_lead() -> None:
    """Found by the simulator: a broker put a replica into another log dir, after one that failed without its knowing.

    Its leader called it in sync, the controller wrote that it was not, in a new epoch, and so on.
    """
    world = World(topic("a", partition(ONE, TWO)))
    world.happens(ReplicasFailed(TWO, ALL[TWO], frozenset({A0})))
    assert world.of().isr == (ONE,)
    world.happens(ReplicasServed(TWO, ALL[TWO] - 1, frozenset({A0})))  # an earlier process of that broker
    world.leader_writes_isr(A0, (ONE, TWO))
    world.happens(IsrNoticed({A0: world.store[A0]}))
    assert world.of().isr == (ONE,)
    told = world.happens(ReplicasServed(TWO, ALL[TWO], frozenset({A0})))
    assert told == [TellEverybody(frozenset({A0}))]
    world.leader_writes_isr(A0, (ONE, TWO))
    world.happens(IsrNoticed({A0: world.store[A0]}))
    assert world.of().isr == (ONE, TWO)
    world.happens(lost(ONE))
    assert world.of().leader == TWO


def test_what_has_gone_since_somebody_asked_for_a_change_is_not_changed() -> None:
    """Between the question whether it can be moved and the turn in which it would be, others have theirs."""
    world = World(topic("a", partition(ONE, TWO)))
    assert world.happens(MovesAsked({TopicPartition("b", 0): (ONE, THREE)})) == []
    assert world.happens(UncleanElectionChanged("b", allowed=True)) == []
    world.happens(lost(THREE))
    assert world.happens(MovesAsked({A0: (ONE, THREE)})) == []
    world.brokers_are(ALL)
    world.happens(DeletionDecided("a"))
    assert world.happens(MovesAsked({A0: (ONE, THREE)})) == []
    assert not list(world.core.moving())


@pytest.mark.parametrize("kind", ["shutdown", "failed"])
def test_what_an_earlier_process_of_a_broker_said_is_not_taken_for_the_next_ones_word(kind: str) -> None:
    """It would never lead again, and whenever its leader called it in sync, the controller would say that it is not."""
    world = World(topic("a", partition(ONE, TWO)))
    world.brokers_are(ALL | {TWO: 202})
    world.leader_writes_isr(A0, (ONE, TWO))
    world.happens(
        ShutdownAsked(TWO, ALL[TWO]) if kind == "shutdown" else ReplicasFailed(TWO, ALL[TWO], frozenset({A0}))
    )
    world.happens(IsrNoticed({A0: world.store[A0]}))
    assert world.of().isr == (ONE, TWO)
    world.brokers_are({TWO: 202, THREE: ALL[THREE]})
    assert world.of().leader == TWO


def test_replicas_that_an_earlier_process_deleted_are_to_be_deleted_by_the_next_one_too() -> None:
    world = World(topic("a", partition(ONE, TWO)))
    world.happens(DeletionDecided("a"))
    world.brokers_are(ALL | {TWO: 202})
    world.happens(ReplicasStopped(ONE, ALL[ONE], frozenset({A0})))
    assert world.happens(ReplicasStopped(TWO, ALL[TWO], frozenset({A0}))) == []
    assert world.happens(ReplicasStopped(TWO, 202, frozenset({A0}))) == [FinishDeletion("a")]


def test_preferred_leaders_lead_again_when_asked_and_in_sync() -> None:
    world = World(topic("a", partition(ONE, TWO, leader=TWO), partition(ONE, TWO, leader=TWO, isr=(TWO,))))
    world.happens(ElectionAsked(ElectionKind.PREFERRED, (A0, TopicPartition("a", 1))))
    assert world.of().leader == ONE
    assert world.of(TopicPartition("a", 1)).leader == TWO


@pytest.mark.parametrize(("tolerated", "leader"), [(49, ONE), (50, TWO)])
def test_leadership_goes_back_only_when_too_much_of_it_has_drifted(tolerated: int, leader: BrokerId) -> None:
    world = World(topic("a", partition(ONE, TWO, leader=TWO), partition(ONE, TWO)))
    world.happens(BalanceDue(tolerated))
    assert world.of().leader == leader


def test_an_unclean_election_can_be_asked_for() -> None:
    world = World(topic("a", partition(ONE, TWO, isr=(ONE,))))
    world.happens(lost(ONE))
    world.happens(ElectionAsked(ElectionKind.UNCLEAN, (A0,)))
    assert world.of() == Leadership(TWO, LeaderEpoch(2), (TWO,))


def test_a_topic_is_forgotten_when_its_last_replica_is_gone_even_one_that_was_away() -> None:
    world = World(topic("a", partition(ONE, TWO)), brokers={ONE: 101})
    assert world.happens(DeletionDecided("a")) == [TellEverybody(frozenset({A0})), StopReplicas(ONE, frozenset({A0}))]
    assert world.happens(ReplicasStopped(ONE, ALL[ONE], frozenset({A0}))) == []
    assert StopReplicas(TWO, frozenset({A0})) in world.happens(BrokersChanged({ONE: 101, TWO: 102}))
    assert world.happens(ReplicasStopped(TWO, ALL[TWO], frozenset({A0}))) == [FinishDeletion("a")]
    assert world.core.find(A0) is None


def test_a_partition_moves_in_steps() -> None:
    world = World(topic("a", partition(ONE, TWO)), brokers={**ALL, FOUR: 104})
    asked = world.happens(MovesAsked({A0: (THREE, FOUR)}))
    moving = Assignment((THREE, FOUR, ONE, TWO), adding=(THREE, FOUR), removing=(ONE, TWO))
    found = world.core.find(A0)
    assert found is not None
    assert found.assignment == moving
    assert asked[0] == WriteAssignments(("a",))
    assert {effect.broker for effect in asked if isinstance(effect, TellReplicas)} == {ONE, TWO, THREE, FOUR}
    # The new replicas have caught up: one of them leads, the old ones are out of sync, and are deleted.
    world.leader_writes_isr(A0, (ONE, TWO, THREE, FOUR))
    arrived = world.happens(IsrNoticed({A0: world.store[A0]}))
    assert world.of() == Leadership(THREE, LeaderEpoch(1), (THREE, FOUR))
    assert arrived[-2:] == [StopReplicas(ONE, frozenset({A0})), StopReplicas(TWO, frozenset({A0}))]
    # Only when they are deleted is the move forgotten.
    assert world.happens(ReplicasStopped(ONE, ALL[ONE], frozenset({A0}))) == []
    assert found.assignment == moving
    assert world.happens(ReplicasStopped(TWO, ALL[TWO], frozenset({A0})))[0] == WriteAssignments(("a",))
    assert found.assignment == Assignment((THREE, FOUR))


def test_a_move_is_completed_by_the_next_controller() -> None:
    held = ControlledPartition(
        Assignment((TWO, THREE, ONE), adding=(THREE,), removing=(ONE,)),
        Leadership(ONE, LeaderEpoch(5), (ONE, TWO, THREE)),
        version=9,
    )
    world = World(topic("a", held))
    assert world.of() == Leadership(TWO, LeaderEpoch(6), (TWO, THREE))
    assert world.told[-1] == StopReplicas(ONE, frozenset({A0}))


def test_a_move_that_is_called_off_leaves_what_was() -> None:
    world = World(topic("a", partition(ONE, TWO)))
    world.happens(MovesAsked({A0: (THREE,)}))
    told = world.happens(MovesAsked({A0: None}))
    found = world.core.find(A0)
    assert found is not None
    assert found.assignment == Assignment((ONE, TWO))
    assert StopReplicas(THREE, frozenset({A0})) in told
    assert world.core.why_not_move(A0, None) is not None


def test_fewer_replicas_are_a_move_too() -> None:
    world = World(topic("a", partition(ONE, TWO, THREE)))
    told = world.happens(MovesAsked({A0: (ONE, TWO)}))
    assert world.of() == Leadership(ONE, LeaderEpoch(1), (ONE, TWO))
    assert told[-1] == StopReplicas(THREE, frozenset({A0}))


def test_a_replica_that_goes_is_told_nothing_but_to_go() -> None:
    world = World(topic("a", partition(ONE, TWO, THREE)))
    world.happens(MovesAsked({A0: (ONE, TWO)}))
    # It has not heard that yet when the leader dies: it must not be told to follow the next one instead.
    told = world.happens(lost(ONE))
    assert world.of() == Leadership(TWO, LeaderEpoch(2), (TWO,))
    told += world.happens(BrokersChanged(ALL)) + world.happens(LogDirsFailed(frozenset({THREE})))
    assert TellReplicas(TWO, frozenset({A0})) in told
    assert TellReplicas(ONE, frozenset({A0})) in told
    assert TellReplicas(THREE, frozenset({A0})) not in told
    assert world.core.replicas_on(THREE) == frozenset()
    world.happens(ReplicasStopped(THREE, ALL[THREE], frozenset({A0})))
    found = world.core.find(A0)
    assert found is not None
    assert found.assignment == Assignment((ONE, TWO))


def test_a_topic_that_is_deleted_while_it_moves_is_told_nothing_but_to_go() -> None:
    world = World(topic("a", partition(ONE, TWO, THREE)))
    world.happens(MovesAsked({A0: (ONE, TWO)}))
    world.happens(DeletionDecided("a"))
    told = world.happens(ReplicasStopped(THREE, ALL[THREE], frozenset({A0})))
    assert not [effect for effect in told if isinstance(effect, TellReplicas | WriteAssignments)]
    world.happens(ReplicasStopped(ONE, ALL[ONE], frozenset({A0})))
    assert world.happens(ReplicasStopped(TWO, ALL[TWO], frozenset({A0}))) == [FinishDeletion("a")]


def test_a_move_ends_with_a_state_of_the_controllers() -> None:
    """Who leads may just be calling a replica in sync that is about to be deleted."""
    world = World(topic("a", partition(ONE, TWO, THREE, isr=(ONE,))))
    world.happens(MovesAsked({A0: (ONE, TWO)}))
    world.leader_writes_isr(A0, (ONE, TWO))
    noticed = world.store[A0]
    world.leader_writes_isr(A0, (ONE, TWO, THREE))
    told = world.happens(IsrNoticed({A0: noticed}))
    assert world.of() == Leadership(ONE, LeaderEpoch(1), (ONE, TWO))
    assert told[-1] == StopReplicas(THREE, frozenset({A0}))


def test_a_replica_that_should_go_stays_while_it_is_the_only_one_alive() -> None:
    held = ControlledPartition(
        Assignment((ONE, TWO, THREE), removing=(THREE,)),
        Leadership(THREE, LeaderEpoch(5), (ONE, TWO, THREE)),
        version=9,
    )
    world = World(topic("a", held), brokers={THREE: 103})
    assert world.of() == Leadership(THREE, LeaderEpoch(6), (THREE,))
    assert not [effect for effect in world.told if isinstance(effect, StopReplicas)]


def test_a_move_that_would_lose_what_is_committed_is_refused() -> None:
    world = World(topic("a", partition(ONE, TWO)))
    world.happens(MovesAsked({A0: (THREE,)}))
    assert world.core.why_not_move(A0, (FOUR,)) == "broker 4 is not alive"
    assert world.core.why_not_move(A0, (ONE, ONE)) is not None
    assert world.core.why_not_move(A0, (THREE, TWO)) is None


def test_new_topics_and_partitions_are_told() -> None:
    world = World()
    told = world.happens(TopicCreated(topic("a", partition(ONE, TWO))))
    assert told == [
        TellReplicas(ONE, frozenset({A0})),
        TellReplicas(TWO, frozenset({A0})),
        TellEverybody(frozenset({A0})),
    ]
    told = world.happens(PartitionsAdded("a", {1: partition(THREE)}))
    assert told == [
        TellReplicas(THREE, frozenset({TopicPartition("a", 1)})),
        TellEverybody(frozenset({TopicPartition("a", 1)})),
    ]


BROKERS = st.sampled_from([ONE, TWO, THREE, FOUR])
REPLICAS = st.lists(BROKERS, min_size=1, max_size=3, unique=True).map(tuple)
NAMES = st.sampled_from([A0, TopicPartition("a", 1)])
MOVES = st.one_of(
    st.tuples(st.just("brokers"), st.dictionaries(BROKERS, st.integers(1, 3))),
    st.tuples(st.just("isr"), NAMES, st.permutations([ONE, TWO, THREE, FOUR]), st.booleans()),
    st.tuples(st.just("shutdown"), BROKERS),
    st.tuples(st.sampled_from(["failed", "served"]), BROKERS, NAMES),
    st.tuples(st.just("elect"), st.sampled_from(ElectionKind), NAMES),
    st.tuples(st.just("move"), NAMES, st.one_of(st.none(), REPLICAS)),
    st.tuples(st.just("stopped"), BROKERS, NAMES),
    st.tuples(st.just("unclean"), st.booleans()),
)


@given(st.lists(REPLICAS, min_size=2, max_size=2), st.lists(MOVES, max_size=30))
def test_whatever_happens_the_laws_hold(
    assignments: list[tuple[BrokerId, ...]], history: list[tuple[object, ...]]
) -> None:
    """The leader is in sync, epochs only grow, one leader per epoch: asserted by the world at every write."""
    world = World(topic("a", *(partition(*replicas) for replicas in assignments)), brokers={**ALL, FOUR: 104})
    for move in history:
        _happen(world, move)
        for name, (leadership, _) in world.store.items():
            held = world.core.find(name)
            assert held is not None
            replicas, broken = held.holders, held.broken
            assert replicas
            able = [b for b in leadership.isr if b in world.core.brokers and b in replicas and b not in broken]
            if able:
                assert leadership.leader in world.core.brokers, "somebody in sync is alive, so somebody alive leads"


def _happen(world: World, move: tuple[object, ...]) -> None:  # noqa: C901 - one case for each kind
    core = world.core
    match move:
        case ("brokers", dict() as brokers):
            world.brokers_are(brokers)
        case ("isr", TopicPartition() as name, list() as order, bool() as is_noticed):
            leadership, _ = world.store[name]
            held = core.find(name)
            assert held is not None
            if leadership.leader == NO_BROKER:
                return
            # Of replicas that are being deleted it was not told.
            others = [b for b in order if b in held.holders and b != leadership.leader and b in core.brokers]
            world.leader_writes_isr(name, (leadership.leader, *others[: len(order) // 2]))
            if is_noticed:
                world.happens(IsrNoticed({name: world.store[name]}))
        case ("shutdown", int() as broker):
            world.happens(ShutdownAsked(BrokerId(broker), core.brokers.get(BrokerId(broker), 0)))
        case ("failed", int() as broker, TopicPartition() as name):
            world.happens(ReplicasFailed(BrokerId(broker), core.brokers.get(BrokerId(broker), 0), frozenset({name})))
        case ("served", int() as broker, TopicPartition() as name):
            world.happens(ReplicasServed(BrokerId(broker), core.brokers.get(BrokerId(broker), 0), frozenset({name})))
        case ("elect", ElectionKind() as kind, TopicPartition() as name):
            world.happens(ElectionAsked(kind, (name,)))
        case ("move", TopicPartition() as name, target):
            assert target is None or isinstance(target, tuple)
            if core.why_not_move(name, target) is None:
                world.happens(MovesAsked({name: target}))
        case ("stopped", int() as broker, TopicPartition() as name):
            world.happens(ReplicasStopped(BrokerId(broker), core.brokers.get(BrokerId(broker), 0), frozenset({name})))
        case ("unclean", bool() as allowed):
            world.happens(UncleanElectionChanged("a", allowed))


def test_a_broker_that_was_gone_while_nobody_looked_is_not_trusted() -> None:
    """Its machine may have lost power, and the end of its log with it (KIP-903)."""
    held = partition(ONE, TWO, THREE)
    held.bounced = frozenset({ONE})
    world = World(topic("a", held))
    assert world.of() == Leadership(TWO, LeaderEpoch(1), (TWO, THREE))
    assert held.bounced == frozenset()


def test_if_all_were_gone_they_are_all_there_is() -> None:
    held = partition(ONE, TWO, THREE, isr=(ONE, TWO))
    held.bounced = frozenset({ONE, TWO, THREE})
    world = World(topic("a", held))
    assert world.of() == Leadership(ONE, LeaderEpoch(1), (ONE, TWO))


def test_an_epoch_ends_when_a_replica_goes_that_we_did_not_know_to_be_in_sync() -> None:
    """Before: the leader had just called it in sync, we had not heard of it, and it stayed so without its log."""
    world = World(topic("a", partition(ONE, TWO, THREE, isr=(ONE, TWO))))
    world.happens(BrokersChanged({ONE: 101, TWO: 102}))
    assert world.of() == Leadership(ONE, LeaderEpoch(1), (ONE, TWO))
