"""How a broker that is a cluster of one serves its topics: by itself, as soon as they are written down."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final, Protocol

from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from highwater.broker.topic_rules import NewTopic
    from highwater.broker.topic_store import TopicStore
    from highwater.broker.topics import PartitionState, Topic, Topics
    from highwater.config.topic_settings import TopicSettings

_LOGS_AT_A_TIME: Final = 16
"""Logs opened or dropped before others get a turn on the loop."""


class LocalReplicas(Protocol):
    """The partitions on this broker's disks."""

    def make(
        self,
        name: TopicPartition,
        *,
        topic_id: TopicId,
        leader_epoch: LeaderEpoch,
        replicas: tuple[BrokerId, ...],
        settings: TopicSettings,
        is_new: bool,
    ) -> object:
        """Serve a partition."""

    def drop(self, name: TopicPartition) -> None:
        """Serve a partition no longer, and delete its data."""

    def reconfigure(self, name: TopicPartition, settings: TopicSettings) -> None:
        """Let a partition follow its topic's new settings."""


class ServeAlone:
    """Leads every partition of every topic."""

    may_decide: Final = True

    def __init__(self, broker_id: BrokerId, *, topics: Topics, store: TopicStore, replicas: LocalReplicas) -> None:
        self._broker_id = broker_id
        self._topics = topics
        self._store = store
        self._replicas = replicas

    async def start(self, controller_epoch: int, *, was_stopped_cleanly: bool) -> None:
        """Load every topic and serve its local partitions; then finish deletions that a restart interrupted.

        After a stop that was not clean every partition gets a new leader epoch, as it would from a controller: the end
        of a log may be lost, and a reader that was past it must see that what is there now is not what it read.
        """
        for topic in await self._store.load(controller_epoch):
            if not was_stopped_cleanly:
                await self._store.raise_epochs(topic, controller_epoch)
            self._topics.put(topic)
            await self._serve(topic, range(len(topic.partitions)), are_new=False)
        for name in sorted(await self._store.to_be_deleted()):
            half_deleted = self._topics.get(name)
            if half_deleted is not None:
                await self._delete(half_deleted)

    def is_moving(self, name: str) -> bool:  # noqa: ARG002 - part of how topics are served
        """Return False: there is nowhere to move to."""
        return False

    async def create(self, topic: Topic, write: Callable[[], Awaitable[None]]) -> None:
        """Have a topic written down, and serve it."""
        await write()
        self._topics.put(topic)
        await self._serve(topic, range(len(topic.partitions)), are_new=True)

    async def grow(self, topic: Topic, write: Callable[[], Awaitable[list[PartitionState]]]) -> None:
        """Have further partitions of a topic written down, and serve them."""
        before = len(topic.partitions)
        topic.partitions += await write()
        await self._serve(topic, range(before, len(topic.partitions)), are_new=True)
        self._topics.changed(topic.name)

    async def delete(self, topic: Topic, write: Callable[[], Awaitable[None]]) -> None:
        """Have a topic's deletion written down, and delete it."""
        await write()
        await self._delete(topic)

    async def _delete(self, topic: Topic) -> None:
        self._topics.remove(topic)
        for count, index in enumerate(self._local(topic, range(len(topic.partitions))), start=1):
            self._replicas.drop(TopicPartition(topic.name, index))
            await _give_way(count)
        await self._store.finish_deletion(topic)

    async def create_elsewhere(self, wanted: NewTopic) -> Topic:
        """Refuse: there is nobody else."""
        raise KafkaError(f"{wanted.name} can be made here only", code=ErrorCode.NOT_CONTROLLER)

    async def _serve(self, topic: Topic, indexes: Iterable[int], *, are_new: bool) -> None:
        for count, index in enumerate(self._local(topic, indexes), start=1):
            partition = topic.partitions[index]
            self._replicas.make(
                TopicPartition(topic.name, index),
                topic_id=topic.id,
                leader_epoch=partition.leader_epoch,
                replicas=partition.replicas,
                settings=topic.settings,
                is_new=are_new,
            )
            await _give_way(count)

    def _local(self, topic: Topic, indexes: Iterable[int]) -> list[int]:
        return [index for index in indexes if self._broker_id in topic.partitions[index].replicas]


async def _give_way(count: int) -> None:
    if count % _LOGS_AT_A_TIME == 0:
        await asyncio.sleep(0)
