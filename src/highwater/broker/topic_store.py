"""Topics in the cluster's memory: read at start, written when they are made, grown or deleted."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from highwater.broker.topics import PartitionState, Topic
from highwater.config.topic_settings import TopicSettings
from highwater.coordination import paths, records
from highwater.coordination.port import Create, Delete, NodeExists, Write
from highwater.coordination.records import BadRecord, PartitionStateRecord, TopicRecord
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import BrokerId, LeaderEpoch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from highwater.config.broker_config import BrokerConfig
    from highwater.coordination.port import Coordination, Operation

FIRST_LEADER_EPOCH: Final = LeaderEpoch(0)
_OPERATIONS_AT_ONCE: Final = 1000
"""ZooKeeper takes about a megabyte in one request."""


class TopicStore:
    """Reads and writes the nodes of topics. What was half done when a broker died is completed by the next `load`."""

    def __init__(self, store: Coordination, config: BrokerConfig, fence: Callable[[], list[Operation]] = list) -> None:
        """`fence` goes with every change of topics, so that it fails once another controller was elected."""
        self._store = store
        self._fence = fence
        self._config = config
        self._known_brokers: dict[tuple[BrokerId, ...], tuple[BrokerId, ...]] = {}

    async def load(self, controller_epoch: int) -> list[Topic]:
        """Return every topic, those that are to be deleted included."""
        names = await self._store.children(paths.TOPICS)
        nodes = await self._store.read_many([paths.topic(name) for name in names])
        config_nodes = await self._store.read_many([paths.topic_config(name) for name in names])
        topics: list[Topic] = []
        for name, node, config_node in zip(names, nodes, config_nodes, strict=True):
            if node is not None:
                configs = records.decode_configs(paths.topic_config(name), config_node.data) if config_node else {}
                record = TopicRecord.decode(paths.topic(name), node.data)
                if list(record.replicas) != list(range(len(record.replicas))):
                    raise BadRecord(f"{paths.topic(name)} has partitions {list(record.replicas)}, with gaps")
                topics.append(await self._load_topic(name, record, configs, controller_epoch))
        return topics

    async def to_be_deleted(self) -> frozenset[str]:
        """Return the topics whose deletion was decided and not finished."""
        return frozenset(await self._store.children(paths.DELETED_TOPICS))

    def plan(self, name: str, record: TopicRecord, configs: dict[str, str]) -> Topic:
        """Return a topic as it will be once it is written: every partition led by its preferred replica."""
        partitions = [self._first_state(replicas) for replicas in record.replicas.values()]
        return Topic(name, record.topic_id, partitions, configs, TopicSettings.resolve(self._config, configs))

    async def create(self, topic: Topic, controller_epoch: int) -> None:
        """Write a planned topic. NodeExists if there is one of this name."""
        await self._create_with_states(
            [
                Create(paths.topic(topic.name), _record(topic, topic.partitions).encode()),
                Create(paths.partitions(topic.name)),
                Create(paths.topic_config(topic.name), records.encode_configs(topic.configs)),
            ],
            _state_creations(topic.name, enumerate(topic.partitions), controller_epoch),
        )

    async def grow(
        self, topic: Topic, added: Sequence[tuple[BrokerId, ...]], controller_epoch: int
    ) -> list[PartitionState]:
        """Write further partitions of a topic, and return their states.

        They are added to what is written, not to what this broker knows of it: it may not have heard the newest.
        """
        path, first = paths.topic(topic.name), len(topic.partitions)
        (node,) = await self._store.read_many([path])
        if node is None:
            raise KafkaError(f"there is no topic {topic.name}", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        record = TopicRecord.decode(path, node.data)
        if len(record.replicas) != first:
            raise KafkaError(
                f"{topic.name} has {len(record.replicas)} partitions, and this broker has heard of {first} until now",
                code=ErrorCode.NOT_CONTROLLER,
            )
        states = [self._first_state(replicas) for replicas in added]
        grown = replace(record, replicas={**record.replicas, **dict(enumerate(added, start=first))})
        await self._create_with_states(
            [Write(path, grown.encode(), node.version)],
            _state_creations(topic.name, enumerate(states, start=first), controller_epoch),
        )
        return states

    async def raise_epochs(self, topic: Topic, controller_epoch: int) -> None:
        """Give every partition of a topic its next leader epoch."""
        writes: list[Operation] = []
        for index, partition in enumerate(topic.partitions):
            partition.leader_epoch = LeaderEpoch(partition.leader_epoch + 1)
            state = PartitionStateRecord(partition.leader, partition.leader_epoch, partition.isr, controller_epoch)
            writes.append(Write(paths.partition_state(topic.name, index), state.encode(), partition.version))
            partition.version += 1
        for start in range(0, len(writes), _OPERATIONS_AT_ONCE):
            await self._store.multi(writes[start : start + _OPERATIONS_AT_ONCE])

    async def decide_deletion(self, topic: Topic) -> None:
        """Write down that a topic is to be deleted: from here on it will be, whatever happens."""
        with suppress(NodeExists):
            await self._store.multi([*self._fence(), Create(paths.deleted_topic(topic.name))])

    async def finish_deletion(self, topic: Topic) -> None:
        """Forget a topic whose data is gone, the decision to delete it last."""
        states: list[Operation] = []
        for index in range(len(topic.partitions)):
            states += [Delete(paths.partition_state(topic.name, index)), Delete(paths.partition(topic.name, index))]
        for start in range(0, len(states), _OPERATIONS_AT_ONCE):
            await self._store.multi(states[start : start + _OPERATIONS_AT_ONCE])
        await self._store.multi(
            [
                Delete(paths.partitions(topic.name)),
                Delete(paths.topic(topic.name)),
                Delete(paths.topic_config(topic.name)),
                Delete(paths.deleted_topic(topic.name)),
            ]
        )

    async def _load_topic(
        self, name: str, record: TopicRecord, configs: dict[str, str], controller_epoch: int
    ) -> Topic:
        topic = self.plan(name, record, configs)
        state_paths = [paths.partition_state(name, index) for index in record.replicas]
        missing: list[int] = []
        for index, (path, node) in enumerate(zip(state_paths, await self._store.read_many(state_paths), strict=True)):
            if node is None:
                missing.append(index)
                continue
            state = PartitionStateRecord.decode(path, node.data)
            partition = topic.partitions[index]
            partition.leader = state.leader
            partition.leader_epoch = LeaderEpoch(state.leader_epoch)
            partition.isr = self._shared(state.isr)
            partition.version = node.version
        if missing:
            await self._complete(topic, missing, controller_epoch)
        return topic

    async def _complete(self, topic: Topic, missing: list[int], controller_epoch: int) -> None:
        """Write the states that a broker did not get to write before it died."""
        states = ((index, topic.partitions[index]) for index in missing)
        await self._create_with_states([], _state_creations(topic.name, states, controller_epoch))

    async def _create_with_states(self, decision: Sequence[Operation], states: Sequence[Operation]) -> None:
        """Write what decides that partitions are, and as many states as go with it; `load` completes the rest.

        Of each partition both nodes are written at once: a piece is an even number of operations. Each piece is fenced
        by itself: a controller that was replaced in between must not write over what its successor completes.
        """
        await self._store.multi([*self._fence(), *decision, *states[:_OPERATIONS_AT_ONCE]])
        for start in range(_OPERATIONS_AT_ONCE, len(states), _OPERATIONS_AT_ONCE):
            await self._store.multi([*self._fence(), *states[start : start + _OPERATIONS_AT_ONCE]])

    def _first_state(self, replicas: tuple[BrokerId, ...]) -> PartitionState:
        replicas = self._shared(replicas)
        return PartitionState(
            replicas=replicas, leader=replicas[0], leader_epoch=FIRST_LEADER_EPOCH, isr=replicas, version=0
        )

    def _shared(self, brokers: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
        """Return an equal tuple that others use too: ten thousand partitions have few different ones."""
        return self._known_brokers.setdefault(brokers, brokers)


def _record(topic: Topic, partitions: Sequence[PartitionState]) -> TopicRecord:
    return TopicRecord(topic.id, {index: partition.replicas for index, partition in enumerate(partitions)})


def _state_creations(
    topic: str, partitions: Iterable[tuple[int, PartitionState]], controller_epoch: int
) -> list[Operation]:
    creations: list[Operation] = []
    for index, partition in partitions:
        state = PartitionStateRecord(partition.leader, partition.leader_epoch, partition.isr, controller_epoch)
        creations += [
            Create(paths.partition(topic, index)),
            Create(paths.partition_state(topic, index), state.encode()),
        ]
    return creations
