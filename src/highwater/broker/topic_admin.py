"""Topics come, grow and go: checked, written down, then served."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from highwater.broker import topic_rules
from highwater.broker.internal_topics import internal_topic
from highwater.broker.topic_rules import BROKERS_CHOICE, NewTopic
from highwater.broker.topics import INTERNAL_TOPICS
from highwater.config.settings import node
from highwater.config.topic_settings import check_topic_configs
from highwater.controller.placement import place, placement_order
from highwater.coordination.records import TopicRecord
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import NO_BROKER, BrokerId
from highwater.model.log_events import EventLog
from highwater.model.unique_ids import new_id

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from highwater.broker.changes import Changes
    from highwater.broker.cluster import Cluster
    from highwater.broker.topic_store import TopicStore
    from highwater.broker.topics import PartitionState, Topic, Topics
    from highwater.config.broker_config import BrokerConfig

events = EventLog("broker")


class Serving(Protocol):
    """Who serves topics once they are written down: this broker alone, or the cluster by its controller."""

    @property
    def may_decide(self) -> bool:
        """Whether this broker decides about topics; in a cluster, only the controller does."""

    def is_moving(self, name: str) -> bool:
        """Return whether partitions of a topic are being moved to other brokers."""

    async def create(self, topic: Topic, write: Callable[[], Awaitable[None]]) -> None:
        """Have a topic written down, and serve it."""

    async def grow(self, topic: Topic, write: Callable[[], Awaitable[list[PartitionState]]]) -> None:
        """Have further partitions of a topic written down, and serve them."""

    async def delete(self, topic: Topic, write: Callable[[], Awaitable[None]]) -> None:
        """Have a topic's deletion written down; serve it no longer, delete its data, then forget it."""

    async def create_elsewhere(self, wanted: NewTopic) -> Topic:
        """Let the controller make a topic, and return it once this broker knows it."""


class TopicAdmin:
    """Makes, grows and deletes topics. Whatever it refuses is a KafkaError with a sentence for the user."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        cluster: Cluster,
        topics: Topics,
        store: TopicStore,
        serving: Serving,
        changes: Changes,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._config = config
        self._cluster = cluster
        self._topics = topics
        self._store = store
        self._serving = serving
        self._changes = changes
        self._random_bytes = random_bytes

    async def create(self, wanted: NewTopic, *, validate_only: bool = False) -> Topic:
        """Make a topic and serve it, or say what it would be."""
        return await self._changes.run(self._create(wanted, validate_only=validate_only))

    async def create_automatically(self, name: str) -> Topic:
        """Make a topic that a client asked about, with the broker's defaults; return it if it is there already."""
        return await self._changes.run(self._create_automatically(name))

    async def grow(
        self, name: str, total: int, assignments: Sequence[Sequence[int]] | None, *, validate_only: bool = False
    ) -> None:
        """Give a topic more partitions, `total` in all; `assignments` are the brokers of each new one."""
        await self._changes.run(self._grow(name, total, assignments, validate_only=validate_only))

    async def delete(self, name: str) -> None:
        """Delete a topic and its data."""
        await self._changes.run(self._delete_named(name))

    async def _create(self, wanted: NewTopic, *, validate_only: bool) -> Topic:
        self._check_controller()
        topic = self._plan(wanted)
        if not validate_only:
            await self._serving.create(topic, lambda: self._store.create(topic, self._cluster.controller_epoch))
            events.info("topic_created", topic=topic.name, partitions=len(topic.partitions))
        return topic

    async def _create_automatically(self, name: str) -> Topic:
        there = self._topics.get(name)
        if there is not None:
            return there
        wanted = internal_topic(name, self._config) if name in INTERNAL_TOPICS else NewTopic(name)
        if not self._serving.may_decide:
            return await self._serving.create_elsewhere(wanted)
        return await self._create(wanted, validate_only=False)

    async def _grow(
        self, name: str, total: int, assignments: Sequence[Sequence[int]] | None, *, validate_only: bool
    ) -> None:
        self._check_controller()
        topic = self._named(name)
        if self._serving.is_moving(name):
            raise KafkaError(
                f"partitions of {name} are being moved; add some when they have arrived",
                code=ErrorCode.REASSIGNMENT_IN_PROGRESS,
            )
        added = self._plan_growth(topic, total, assignments)
        if validate_only:
            return
        await self._serving.grow(topic, lambda: self._store.grow(topic, added, self._cluster.controller_epoch))
        events.info("topic_grown", topic=name, partitions=total)

    async def _delete_named(self, name: str) -> None:
        if not self._config[node.DELETE_TOPIC_ENABLE]:
            raise KafkaError("delete.topic.enable is false", code=ErrorCode.TOPIC_DELETION_DISABLED)
        self._check_controller()
        topic = self._named(name)
        await self._serving.delete(topic, lambda: self._store.decide_deletion(topic))
        events.info("topic_deleted", topic=name)

    def _plan(self, wanted: NewTopic) -> Topic:
        """Return the topic that `wanted` describes, or refuse it; nothing is changed."""
        topic_rules.check_name(wanted.name)
        if self._topics.get(wanted.name) is not None:
            raise KafkaError(f"there is a topic {wanted.name} already", code=ErrorCode.TOPIC_ALREADY_EXISTS)
        if (other := self._topics.clashing_with(wanted.name)) is not None:
            raise KafkaError(
                f"{wanted.name} and the topic {other} differ in '.' and '_' only, which metrics cannot tell apart",
                code=ErrorCode.INVALID_TOPIC_EXCEPTION,
            )
        brokers = self._plan_assignments(wanted)
        configs = check_topic_configs(wanted.configs)
        record = TopicRecord(new_id(self._random_bytes), dict(enumerate(brokers)))
        return self._store.plan(wanted.name, record, configs)

    def _plan_assignments(self, wanted: NewTopic) -> list[tuple[BrokerId, ...]]:
        live = sorted(self._cluster.brokers)
        if wanted.assignments:
            if {wanted.partition_count, wanted.replication_factor} != {BROKERS_CHOICE}:
                raise KafkaError(
                    "give the brokers of each partition, or the numbers of partitions and replicas, not both",
                    code=ErrorCode.INVALID_REQUEST,
                )
            topic_rules.check_partition_count(len(wanted.assignments))
            return topic_rules.checked_assignments(wanted.assignments, first_partition=0, live=live)
        count, factor = wanted.partition_count, wanted.replication_factor
        count = self._config[node.NUM_PARTITIONS] if count == BROKERS_CHOICE else count
        factor = self._config[node.DEFAULT_REPLICATION_FACTOR] if factor == BROKERS_CHOICE else factor
        topic_rules.check_partition_count(count)
        topic_rules.check_replication_factor(factor, len(live))
        racks = self._racks()
        return place(
            placement_order(live, racks),
            first_partition=0,
            partition_count=count,
            replication_factor=factor,
            start=self._random_below(len(live)),
            shift=self._random_below(len(live)),
            racks=racks,
        )

    def _racks(self) -> dict[BrokerId, str | None]:
        return {broker.id: broker.rack for broker in self._cluster.brokers.values()}

    def _plan_growth(
        self, topic: Topic, total: int, assignments: Sequence[Sequence[int]] | None
    ) -> list[tuple[BrokerId, ...]]:
        before = len(topic.partitions)
        if total <= before:
            raise KafkaError(
                f"{topic.name} has {before} partitions and can only be given more, not {total}",
                code=ErrorCode.INVALID_PARTITIONS,
            )
        topic_rules.check_partition_count(total - before)
        live = sorted(self._cluster.brokers)
        factor = len(topic.partitions[0].replicas)
        if assignments is None:
            topic_rules.check_replication_factor(factor, len(live))
            racks = self._racks()
            order = placement_order(live, racks)
            start = order.index(first) if (first := topic.partitions[0].replicas[0]) in order else 0
            return place(
                order,
                first_partition=before,
                partition_count=total - before,
                replication_factor=factor,
                start=start,
                shift=start,
                racks=racks,
            )
        if len(assignments) != total - before:
            raise KafkaError(
                f"{total - before} partitions are added and {len(assignments)} are assigned",
                code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            )
        checked = topic_rules.checked_assignments(
            dict(enumerate(assignments, start=before)), first_partition=before, live=live
        )
        if len(checked[0]) != factor:
            raise KafkaError(
                f"partitions of {topic.name} have {factor} replicas, not {len(checked[0])}",
                code=ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            )
        return checked

    def _check_controller(self) -> None:
        if self._serving.may_decide:
            return
        controller = self._cluster.controller_id
        if controller in {self._cluster.me, NO_BROKER}:
            raise KafkaError("there is no controller right now; try again", code=ErrorCode.NOT_CONTROLLER)
        raise KafkaError(f"broker {controller} is the controller: ask there", code=ErrorCode.NOT_CONTROLLER)

    def _named(self, name: str) -> Topic:
        topic = self._topics.get(name)
        if topic is None:
            raise KafkaError(f"there is no topic {name}", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic

    def _random_below(self, bound: int) -> int:
        return int.from_bytes(self._random_bytes(8), "big") % bound
