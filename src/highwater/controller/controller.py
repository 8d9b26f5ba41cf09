"""The controller: events in, effects out.

It has one habit. Whatever happens, it asks of each partition that may be concerned what it should be
(`leadership_rules.wanted`), has that written under the condition that nobody wrote in between, and has the brokers told
once it is written. So a controller that takes over half way has nothing to resume: it asks the same question.

Invariants: a leader is a member of its in-sync set; a leader epoch is written once and never goes back; nobody is told
what is not written.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, assert_never

from highwater.controller.balance import to_give_back
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
from highwater.controller.leadership_rules import needs_no_other, preferred, unclean, wanted
from highwater.controller.partition import Assignment, ControlledPartition, ControlledTopic, Leadership
from highwater.model.ids import BrokerId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping


class Controller:
    """What the elected controller knows and decides; the driver around it reads, writes and tells."""

    def __init__(self) -> None:
        self.brokers: dict[BrokerId, int] = {}
        self.leaving: set[BrokerId] = set()
        self.topics: dict[str, ControlledTopic] = {}
        self._undeleted: dict[str, set[tuple[BrokerId, TopicPartition]]] = {}
        """The replicas of each topic that is to go, as long as they are there."""
        self._retiring: dict[TopicPartition, set[BrokerId]] = {}
        """The live brokers whose replica of a partition that has moved is still to be deleted."""

    def step(self, event: Event) -> list[Effect]:  # noqa: C901, PLR0911, PLR0912 - one case for each event
        """Take one event in, and return what is to be done, in this order."""
        match event:
            case TookOver(brokers, topics, deleting):
                return self._took_over(brokers, topics, deleting)
            case BrokersChanged(brokers):
                return self._brokers_changed(brokers)
            case TopicCreated(topic):
                self.topics[topic.name] = topic
                return self._announce(_names(topic))
            case PartitionsAdded(name, partitions):
                self.topics[name].partitions.update(partitions)
                return self._announce(TopicPartition(name, index) for index in partitions)
            case DeletionDecided(name):
                return self._delete(name)
            case UncleanElectionChanged(name, allowed):
                return self._allow_unclean(name, allowed=allowed)
            case StatesWritten(written, refused):
                return self._written(written, refused)
            case IsrNoticed(states):
                self._learn(states)
                return [TellEverybody(frozenset(states)), *self._repair(states)]
            case ReplicasStopped(broker, registration, partitions):
                return self._stopped(broker, partitions) if self._is_registered(broker, registration) else []
            case LogDirsFailed(brokers):
                # What they cannot lead or follow any more they refuse, and that is how we learn it.
                return [
                    TellReplicas(broker, self.replicas_on(broker)) for broker in sorted(brokers & self.brokers.keys())
                ]
            case ReplicasFailed(broker, registration, partitions):
                return self._failed(broker, partitions) if self._is_registered(broker, registration) else []
            case ReplicasServed(broker, registration, partitions):
                return self._served(broker, partitions) if self._is_registered(broker, registration) else []
            case ShutdownAsked(broker, registration):
                return self._relieve(broker) if self._is_registered(broker, registration) else []
            case ElectionAsked(kind, partitions):
                return self._elect(kind, partitions)
            case BalanceDue(tolerated_percent):
                names = to_give_back(self._all(), self.brokers, tolerated_percent=tolerated_percent)
                return self._elect(ElectionKind.PREFERRED, tuple(names))
            case MovesAsked(targets):
                return self._move(targets)
            case _:
                assert_never(event)

    # What others may ask --------------------------------------------------------------------------------------------

    def find(self, name: TopicPartition) -> ControlledPartition | None:
        """Return a partition."""
        topic = self.topics.get(name.topic)
        return None if topic is None else topic.partitions.get(name.partition)

    def is_being_deleted(self, topic: str) -> bool:
        """Return whether a topic is to go."""
        return topic in self._undeleted

    def led_by(self, broker: BrokerId) -> list[TopicPartition]:
        """Return the partitions that a broker leads and that another in-sync replica could lead."""
        return [
            name
            for name, partition in self._all()
            if partition.leadership.leader == broker and len(partition.leadership.isr) > 1
        ]

    def moving(self) -> Iterator[tuple[TopicPartition, Assignment]]:
        """Return the partitions whose replicas come or go."""
        return ((name, partition.assignment) for name, partition in self._all() if partition.assignment.is_moving)

    def replicas_on(self, broker: BrokerId) -> frozenset[TopicPartition]:
        """Return the partitions that a broker holds a replica of."""
        return frozenset(name for name, partition in self._all() if broker in partition.holders)

    def broken_on(self, broker: BrokerId, names: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Return those of these partitions of which a broker has said that it cannot serve its replica."""
        found = ((name, self.find(name)) for name in names)
        return frozenset(name for name, partition in found if partition is not None and broker in partition.broken)

    def _is_registered(self, broker: BrokerId, registration: int) -> bool:
        """Return whether a process of a broker's is the one that is there now.

        What an earlier one said while its end was not noticed yet says nothing about this one, which would be taken
        for leaving, or for broken, for as long as it lives.
        """
        return self.brokers.get(broker) == registration

    # Brokers come and go --------------------------------------------------------------------------------------------

    def _took_over(
        self, brokers: Mapping[BrokerId, int], topics: Mapping[str, ControlledTopic], deleting: frozenset[str]
    ) -> list[Effect]:
        self.brokers, self.topics = dict(brokers), dict(topics)
        effects = [effect for name in sorted(deleting) if name in topics for effect in self._delete(name)]
        repairs = self._repair(self._all_names())
        # What is to be changed is told when it is: nobody shall begin to lead who should not.
        changing = {name for effect in repairs if isinstance(effect, WriteStates) for name in effect.changes}
        for broker in sorted(brokers):
            effects += [TellReplicas(broker, self.replicas_on(broker) - changing), TellAll(broker)]
        return effects + repairs

    def _brokers_changed(self, brokers: Mapping[BrokerId, int]) -> list[Effect]:
        before, self.brokers = self.brokers, dict(brokers)
        assert not returned(before, brokers), "a broker that was gone in between is first told as gone"
        came = sorted(brokers.keys() - before.keys())
        gone = sorted(before.keys() - brokers.keys())
        self.leaving.difference_update(gone)
        for _, partition in self._all():
            partition.broken -= frozenset(gone)
            partition.bounced |= frozenset(gone).intersection(partition.assignment.replicas)
        effects: list[Effect] = []
        for broker in came:
            effects += [TellReplicas(broker, self.replicas_on(broker)), TellAll(broker)]
            for name in sorted(self._undeleted):
                effects += self._stop_on(broker, name)
        for broker in gone:
            effects += self._retired(broker, list(self._retiring))
        # Who is alive must be told even when no partition changes.
        return [*effects, TellEverybody(frozenset()), *self._repair(self._all_names())]

    def _relieve(self, broker: BrokerId) -> list[Effect]:
        self.leaving.add(broker)
        return self._repair(self._all_names())

    def _failed(self, broker: BrokerId, partitions: frozenset[TopicPartition]) -> list[Effect]:
        for name in partitions:
            partition = self.find(name)
            if partition is not None:
                partition.broken |= {broker}
        return [TellEverybody(partitions), *self._repair(partitions)]

    def _served(self, broker: BrokerId, partitions: frozenset[TopicPartition]) -> list[Effect]:
        mended = self.broken_on(broker, partitions)
        for name in mended:
            partition = self.find(name)
            assert partition is not None, "it was found a moment ago"
            partition.broken -= {broker}
        return [TellEverybody(mended), *self._repair(mended)] if mended else []

    # Topics go ------------------------------------------------------------------------------------------------------

    def _delete(self, name: str) -> list[Effect]:
        topic = self.topics[name]
        for partition in _names(topic):
            self._retiring.pop(partition, None)  # Whatever moved away is deleted with the rest.
        self._undeleted[name] = {
            (broker, TopicPartition(name, index))
            for index, partition in topic.partitions.items()
            for broker in partition.assignment.replicas
        }
        stops = [effect for broker in sorted(self.brokers) for effect in self._stop_on(broker, name)]
        return [TellEverybody(frozenset(_names(topic))), *stops]

    def _stop_on(self, broker: BrokerId, topic: str) -> list[Effect]:
        names = frozenset(name for holder, name in self._undeleted[topic] if holder == broker)
        return [StopReplicas(broker, names)] if names else []

    def _stopped(self, broker: BrokerId, partitions: frozenset[TopicPartition]) -> list[Effect]:
        effects: list[Effect] = []
        for topic in sorted({name.topic for name in partitions} & self._undeleted.keys()):
            remaining = self._undeleted[topic]
            remaining.difference_update((broker, name) for name in partitions)
            if not remaining:
                del self._undeleted[topic], self.topics[topic]
                effects.append(FinishDeletion(topic))
        return effects + self._retired(broker, partitions)

    # Leaders are elected --------------------------------------------------------------------------------------------

    def _repair(self, names: Iterable[TopicPartition], just_written: Collection[TopicPartition] = ()) -> list[Effect]:
        """Write what the partitions should be, where they are not; then see which have finished moving.

        A move ends with a state of ours: its leader, who may just be calling a replica in sync that should go, is
        refused then, and learns with the new epoch who is left.
        """
        changes: dict[TopicPartition, tuple[Leadership, int]] = {}
        effects: list[Effect] = []
        for name in names:
            topic, partition = self.topics.get(name.topic), self.find(name)
            if topic is None or partition is None or self.is_being_deleted(name.topic):
                continue
            target = wanted(partition, live=self.brokers, leaving=self.leaving, allows_unclean=topic.allows_unclean)
            ends_move = target is None and not partition.has_moved and needs_no_other(partition)
            if ends_move and name in just_written:
                effects += self._retire(name, partition)
                continue
            if ends_move:
                target = partition.leadership.moved(partition.leadership.leader, partition.leadership.isr)
            if target is not None:
                changes[name] = (target, partition.version)
        return [*([WriteStates(changes)] if changes else []), *effects]

    def _allow_unclean(self, name: str, *, allowed: bool) -> list[Effect]:
        topic = self.topics.get(name)
        if topic is None:
            return []  # it is gone since
        topic.allows_unclean = allowed
        return self._repair(_names(topic))

    def _elect(self, kind: ElectionKind, names: tuple[TopicPartition, ...]) -> list[Effect]:
        rule = preferred if kind is ElectionKind.PREFERRED else unclean
        candidates = self.brokers.keys() - self.leaving
        changes: dict[TopicPartition, tuple[Leadership, int]] = {}
        for name in names:
            partition = self.find(name)
            if partition is None or self.is_being_deleted(name.topic):
                continue
            target = rule(partition, candidates)
            if target is not None:
                changes[name] = (target, partition.version)
        return [WriteStates(changes)] if changes else []

    def _written(
        self,
        written: Mapping[TopicPartition, tuple[Leadership, int]],
        refused: Mapping[TopicPartition, tuple[Leadership, int]],
    ) -> list[Effect]:
        self._learn(written)
        self._learn(refused)
        newest: set[TopicPartition] = set()
        for name, (_, version) in written.items():
            partition = self.find(name)
            if partition is not None:
                partition.bounced = frozenset()
                if partition.version == version:
                    newest.add(name)
        # First what is to be done, for who is told what depends on it.
        repairs = self._repair([*written, *refused], just_written=newest)
        return [*self._announce([*written, *refused]), *repairs]

    def _learn(self, states: Mapping[TopicPartition, tuple[Leadership, int]]) -> None:
        for name, (leadership, version) in states.items():
            partition = self.find(name)
            if partition is not None and version >= partition.version:
                assert leadership.epoch >= partition.leadership.epoch, f"the leader epoch of {name} went back"
                partition.leadership, partition.version = leadership, version

    def _announce(self, names: Iterable[TopicPartition]) -> list[Effect]:
        """Tell the replicas of these partitions, and then everybody."""
        by_broker: dict[BrokerId, set[TopicPartition]] = defaultdict(set)
        told = frozenset(names)
        for name in told:
            partition = self.find(name)
            if partition is not None and not self.is_being_deleted(name.topic):
                for broker in partition.holders:
                    if broker in self.brokers:
                        by_broker[broker].add(name)
        effects: list[Effect] = [TellReplicas(broker, frozenset(by_broker[broker])) for broker in sorted(by_broker)]
        return [*effects, TellEverybody(told)] if told else effects

    # Partitions move ------------------------------------------------------------------------------------------------

    def why_not_move(self, name: TopicPartition, target: tuple[BrokerId, ...] | None) -> str | None:
        """Return why a partition cannot be moved to these brokers, or None if it can; None calls a move off."""
        partition = self.find(name)
        assert partition is not None, "asked for a partition that is there"
        if target is None:
            return None if partition.assignment.is_moving else f"{name} is not being moved"
        if not target or len(set(target)) != len(target):
            return "name each broker that shall hold the partition once"
        if strangers := [broker for broker in target if broker not in self.brokers]:
            return f"broker {strangers[0]} is not alive"
        if not set(partition.assignment.moving_to(target).replicas) & set(partition.leadership.isr):
            return "none of the replicas that would stay is in sync"
        return None

    def _move(self, wanted_targets: Mapping[TopicPartition, tuple[BrokerId, ...] | None]) -> list[Effect]:
        """Begin to move what can be moved: since somebody asked, a topic may be gone, or a broker."""
        targets = {
            name: target
            for name, target in wanted_targets.items()
            if not self.is_being_deleted(name.topic) and self.find(name) and self.why_not_move(name, target) is None
        }
        if not targets:
            return []
        dropped: dict[BrokerId, set[TopicPartition]] = defaultdict(set)
        for name, target in targets.items():
            partition = self.find(name)
            assert partition is not None
            before = partition.assignment
            partition.assign(before.moving_to(before.origin if target is None else target))
            self._retiring.pop(name, None)
            for broker in before.replicas:
                if broker not in partition.assignment.replicas and broker in self.brokers:
                    dropped[broker].add(name)
        effects: list[Effect] = [WriteAssignments(tuple(sorted({name.topic for name in targets})))]
        effects += [StopReplicas(broker, frozenset(dropped[broker])) for broker in sorted(dropped)]
        return [*effects, *self._announce(targets), *self._repair(targets)]

    def _retire(self, name: TopicPartition, partition: ControlledPartition) -> list[Effect]:
        """Delete the replicas that a partition has moved away from; only then is the move forgotten."""
        partition.has_moved = True
        waited_for = {broker for broker in partition.assignment.removing if broker in self.brokers}
        if not waited_for:
            return self._arrive(name, partition)
        self._retiring[name] = waited_for
        return [StopReplicas(broker, frozenset({name})) for broker in sorted(waited_for)]

    def _retired(self, broker: BrokerId, names: Iterable[TopicPartition]) -> list[Effect]:
        effects: list[Effect] = []
        for name in sorted(names):
            waited_for = self._retiring.get(name)
            if waited_for is None or broker not in waited_for:
                continue
            waited_for.discard(broker)
            if not waited_for:
                del self._retiring[name]
                partition = self.find(name)
                if partition is not None:
                    effects += self._arrive(name, partition)
        return effects

    def _arrive(self, name: TopicPartition, partition: ControlledPartition) -> list[Effect]:
        partition.assign(Assignment(partition.assignment.target))
        return [WriteAssignments((name.topic,)), *self._announce([name])]

    # All of them ----------------------------------------------------------------------------------------------------

    def _all(self) -> Iterator[tuple[TopicPartition, ControlledPartition]]:
        for topic in self.topics.values():
            if topic.name not in self._undeleted:
                for index, partition in topic.partitions.items():
                    yield TopicPartition(topic.name, index), partition

    def _all_names(self) -> list[TopicPartition]:
        return [name for name, _ in self._all()]


def returned(before: Mapping[BrokerId, int], after: Mapping[BrokerId, int]) -> set[BrokerId]:
    """Return the brokers that were gone and are back.

    They must be told as gone first, even though they are there: one that led may have lost the end of its log with its
    machine's power, and would cut the others' logs if it went on leading under the same epoch.
    """
    return {broker for broker in before.keys() & after.keys() if before[broker] != after[broker]}


def _names(topic: ControlledTopic) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for index in topic.partitions]
