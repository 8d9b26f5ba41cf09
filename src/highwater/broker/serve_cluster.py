"""How a cluster serves its topics: the controller, perhaps another broker, tells everybody."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from highwater.broker.peer import Peer
from highwater.config.settings import replication
from highwater.controller.events import DeletionDecided, PartitionsAdded, TopicCreated
from highwater.controller.partition import Assignment, ControlledPartition, ControlledTopic, Leadership
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from highwater.broker.cluster import Cluster
    from highwater.broker.controller_driver import ControllerDriver
    from highwater.broker.topic_rules import NewTopic
    from highwater.broker.topics import PartitionState, Topic, Topics

PATIENCE_S: Final = 10.0
"""How long an administrator waits for slow brokers; a change that is written down happens anyway."""
_CREATE_TOPICS_VERSION: Final = 7


class ServeByController:
    """Passes topics that were written down to the controller, which tells every broker."""

    def __init__(self, driver: ControllerDriver, *, cluster: Cluster, topics: Topics, listener: str) -> None:
        self._driver = driver
        self._cluster = cluster
        self._topics = topics
        self._listener = listener

    @property
    def may_decide(self) -> bool:
        """Whether this broker is the controller."""
        return self._driver.is_active

    def is_moving(self, name: str) -> bool:
        """Return whether partitions of a topic are being moved to other brokers."""
        return any(partition.topic == name for partition, _ in self._driver.core.moving())

    async def create(self, topic: Topic, write: Callable[[], Awaitable[None]]) -> None:
        """Have a topic written down, and served by the brokers."""
        controlled = ControlledTopic(
            topic.name,
            topic.id,
            {index: _controlled(state) for index, state in enumerate(topic.partitions)},
            allows_unclean=topic.settings[replication.UNCLEAN_LEADER_ELECTION_ENABLE],
        )
        async with self._driver.decision() as tell_core:
            await write()
            await tell_core(TopicCreated(controlled))
        await self._driver.everybody_knows(PATIENCE_S)

    async def grow(self, topic: Topic, write: Callable[[], Awaitable[list[PartitionState]]]) -> None:
        """Have further partitions of a topic written down, and served by the brokers."""
        first = len(topic.partitions)
        async with self._driver.decision() as tell_core:
            added = {index: _controlled(state) for index, state in enumerate(await write(), start=first)}
            await tell_core(PartitionsAdded(topic.name, added))
        await self._driver.everybody_knows(PATIENCE_S)

    async def delete(self, topic: Topic, write: Callable[[], Awaitable[None]]) -> None:
        """Have a topic deleted everywhere; one that has replicas on dead brokers is forgotten when they return."""
        async with self._driver.decision() as tell_core:
            await write()
            forgotten = self._driver.when_deleted(topic.name)
            await tell_core(DeletionDecided(topic.name))
        await self._driver.everybody_knows(PATIENCE_S)
        live = self._driver.core.brokers
        if all(replica in live for partition in topic.partitions for replica in partition.replicas):
            await asyncio.wait([forgotten], timeout=PATIENCE_S)

    async def create_elsewhere(self, wanted: NewTopic) -> Topic:
        """Let the controller make a topic, and return it once we were told about it."""
        known = asyncio.Event()

        def on_change(name: str) -> None:
            if name == wanted.name:
                known.set()

        self._topics.watch(on_change)
        try:
            await self._ask_controller(wanted)
            async with asyncio.timeout(PATIENCE_S):
                while (topic := self._topics.get(wanted.name)) is None:
                    known.clear()
                    await known.wait()
        except TimeoutError as error:
            raise KafkaError(f"{wanted.name} is being made", code=ErrorCode.LEADER_NOT_AVAILABLE) from error
        finally:
            self._topics.stop_watching(on_change)
        return topic

    async def _ask_controller(self, wanted: NewTopic) -> None:
        controller = self._cluster.brokers.get(self._cluster.controller_id)
        if controller is None or controller.id == self._cluster.me:
            raise KafkaError("there is no controller right now", code=ErrorCode.LEADER_NOT_AVAILABLE)
        address = controller.listeners.get(self._listener) or next(iter(controller.listeners.values()))
        peer = Peer(address, client_id=f"broker-{self._cluster.me}", timeout_s=PATIENCE_S)
        asked = CreatableTopic(
            name=wanted.name,
            num_partitions=wanted.partition_count,
            replication_factor=wanted.replication_factor,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in wanted.configs.items()],
        )
        try:
            response = await peer.ask(
                CreateTopicsRequest(topics=[asked], timeout_ms=int(PATIENCE_S * 1000)),
                CreateTopicsResponse,
                version=_CREATE_TOPICS_VERSION,
            )
        finally:
            peer.close()
        for result in response.topics:
            if result.error_code not in {ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS}:
                raise KafkaError(result.error_message or "", code=ErrorCode(result.error_code))


def _controlled(state: PartitionState) -> ControlledPartition:
    leadership = Leadership(state.leader, state.leader_epoch, state.isr)
    return ControlledPartition(Assignment(state.replicas), leadership, state.version)
