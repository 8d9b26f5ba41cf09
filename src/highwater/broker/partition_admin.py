"""What administrators ask about single partitions: another leader, other brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.controller import leadership_rules
from highwater.controller.events import ElectionAsked, ElectionKind, MovesAsked
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import BrokerId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from highwater.broker.controller_driver import ControllerDriver
    from highwater.broker.topics import Topics
    from highwater.controller.controller import Controller
    from highwater.controller.partition import Assignment, ControlledPartition

PATIENCE_S: Final = 10.0
"""How long to wait until every broker knows; what is decided happens anyway."""


class PartitionAdmin:
    """Elections and moves on demand. Only the controller does them; a cluster of one has nothing to elect or move."""

    def __init__(self, topics: Topics, driver: ControllerDriver | None) -> None:
        self._topics = topics
        self._driver = driver

    async def elect(
        self, kind: ElectionKind, asked: Sequence[TopicPartition] | None, *, timeout_ms: int
    ) -> dict[TopicPartition, KafkaError | None]:
        """Elect leaders; return for each partition why not, if so. None asks for all that need it.

        Whoever asks is answered when every broker knows, or after the timeout: the leaders are elected either way.
        """
        names = self._everything() if asked is None else list(asked)
        outcomes = {name: self._why_not_elect(kind, name) for name in names}
        electable = tuple(name for name, refusal in outcomes.items() if refusal is None)
        if electable:
            assert self._driver is not None, "a cluster of one has nothing to elect"
            await self._driver.happens(ElectionAsked(kind, electable))
            await self._driver.everybody_knows(min(max(timeout_ms, 0) / 1000, PATIENCE_S))
        if asked is not None:
            return outcomes
        return {name: refusal for name, refusal in outcomes.items() if not _is_not_needed(refusal)}

    async def move(
        self, targets: Mapping[TopicPartition, Sequence[int] | None], *, may_change_factor: bool = True
    ) -> dict[TopicPartition, KafkaError | None]:
        """Move partitions to these brokers, or call moves off (None); return for each why not, if so."""
        brokers = {
            name: None if target is None else tuple(BrokerId(broker) for broker in target)
            for name, target in targets.items()
        }
        outcomes = {
            name: self._why_not_move(name, target, may_change_factor=may_change_factor)
            for name, target in brokers.items()
        }
        accepted = {name: brokers[name] for name, refusal in outcomes.items() if refusal is None}
        if accepted and self._driver is not None:
            await self._driver.happens(MovesAsked(accepted))
            core = self._driver.core
            gone = [name for name in accepted if core.find(name) is None or core.is_being_deleted(name.topic)]
            outcomes |= {name: _no_such(name) for name in gone}
        return outcomes

    def moving(self, asked: Iterable[TopicPartition] | None) -> list[tuple[TopicPartition, Assignment]]:
        """Return the moves that are under way, of these partitions or of all."""
        if self._driver is None:
            return []
        wanted = None if asked is None else set(asked)
        return sorted(
            (name, assignment) for name, assignment in self._driver.core.moving() if wanted is None or name in wanted
        )

    def _everything(self) -> list[TopicPartition]:
        return [TopicPartition(topic.name, index) for topic in self._topics for index in range(len(topic.partitions))]

    def _why_not_elect(self, kind: ElectionKind, name: TopicPartition) -> KafkaError | None:
        if self._driver is None:
            return self._unknown(name) or _not_needed(name)
        core = self._driver.core
        partition = core.find(name)
        if partition is None or core.is_being_deleted(name.topic):
            return _no_such(name)
        rule = leadership_rules.preferred if kind is ElectionKind.PREFERRED else leadership_rules.unclean
        if rule(partition, core.brokers.keys() - core.leaving) is not None:
            return None
        return _why_none(kind, name, partition, core)

    def _why_not_move(
        self, name: TopicPartition, target: tuple[BrokerId, ...] | None, *, may_change_factor: bool
    ) -> KafkaError | None:
        if self._driver is None:
            return self._unknown(name) or self._why_not_move_alone(name, target)
        core = self._driver.core
        partition = core.find(name)
        if partition is None or core.is_being_deleted(name.topic):
            return _no_such(name)
        return _why_not(core, name, target) or _factor_kept(
            name, target, len(partition.assignment.origin), may_change_factor=may_change_factor
        )

    def _why_not_move_alone(self, name: TopicPartition, target: tuple[BrokerId, ...] | None) -> KafkaError | None:
        if target is None:
            return KafkaError(f"{name} is not being moved", code=ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
        topic = self._topics.get(name.topic)
        assert topic is not None, "checked before"
        if target != topic.partitions[name.partition].replicas:
            return KafkaError("this broker is a cluster of one", code=ErrorCode.INVALID_REPLICA_ASSIGNMENT)
        return None

    def _unknown(self, name: TopicPartition) -> KafkaError | None:
        topic = self._topics.get(name.topic)
        known = topic is not None and 0 <= name.partition < len(topic.partitions)
        return None if known else _no_such(name)


def _why_none(kind: ElectionKind, name: TopicPartition, partition: ControlledPartition, core: Controller) -> KafkaError:
    """Return why an election would change nothing."""
    leader = partition.leadership.leader
    if kind is ElectionKind.UNCLEAN:
        if leader in core.brokers:
            return _not_needed(name)
        return KafkaError(f"no replica of {name} is alive", code=ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)
    if leader == partition.assignment.replicas[0]:
        return _not_needed(name)
    return KafkaError(
        f"the preferred leader of {name} is not alive or not in sync", code=ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    )


def _why_not(core: Controller, name: TopicPartition, target: tuple[BrokerId, ...] | None) -> KafkaError | None:
    reason = core.why_not_move(name, target)
    if reason is None:
        return None
    code = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS if target is None else ErrorCode.INVALID_REPLICA_ASSIGNMENT
    return KafkaError(reason, code=code)


def _factor_kept(
    name: TopicPartition, target: tuple[BrokerId, ...] | None, factor: int, *, may_change_factor: bool
) -> KafkaError | None:
    if target is None or may_change_factor or len(target) == factor:
        return None
    return KafkaError(
        f"{name} has {factor} replicas, and the request forbids to change that",
        code=ErrorCode.INVALID_REPLICATION_FACTOR,
    )


def _no_such(name: TopicPartition) -> KafkaError:
    return KafkaError(f"there is no partition {name}", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _not_needed(name: TopicPartition) -> KafkaError:
    return KafkaError(f"{name} has the leader that it should have", code=ErrorCode.ELECTION_NOT_NEEDED)


def _is_not_needed(refusal: KafkaError | None) -> bool:
    return refusal is not None and refusal.code is ErrorCode.ELECTION_NOT_NEEDED
