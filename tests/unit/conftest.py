"""A cluster of one without sockets and logs: a real store, and replicas that only remember what they were told."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TypeAlias

import pytest

from highwater.broker.changes import Changes
from highwater.broker.cluster import Cluster, join_alone
from highwater.broker.config_admin import ConfigAdmin
from highwater.broker.serve_alone import ServeAlone
from highwater.broker.topic_admin import TopicAdmin
from highwater.broker.topic_store import TopicStore
from highwater.broker.topics import Topics
from highwater.config.broker_config import BrokerConfig
from highwater.config.topic_settings import TopicSettings
from highwater.coordination.embedded import FILE_NAME, EmbeddedCoordination
from highwater.model.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition


@dataclass
class RememberedReplicas:
    """Replicas that are only names."""

    served: dict[TopicPartition, TopicSettings] = field(default_factory=dict)
    dropped: list[TopicPartition] = field(default_factory=list)
    reconfigured: list[TopicPartition] = field(default_factory=list)

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
        del is_new
        assert len(topic_id) == 16
        assert leader_epoch == 0
        assert replicas == (0,)
        self.served[name] = settings
        return None

    def drop(self, name: TopicPartition) -> None:
        del self.served[name]
        self.dropped.append(name)

    def reconfigure(self, name: TopicPartition, settings: TopicSettings) -> None:
        self.served[name] = settings
        self.reconfigured.append(name)


@dataclass
class Admin:
    """The parts that a test of administration needs."""

    store: EmbeddedCoordination
    config: BrokerConfig
    cluster: Cluster
    topics: Topics
    replicas: RememberedReplicas
    topic_admin: TopicAdmin
    config_admin: ConfigAdmin
    changes: Changes


StartAdmin: TypeAlias = Callable[..., AbstractAsyncContextManager[Admin]]


@pytest.fixture
def start_admin(tmp_path: Path) -> StartAdmin:
    """Start the administration of broker 0 on a store that outlives it."""
    counter = count(1)

    @asynccontextmanager
    async def started(**settings: str) -> AsyncIterator[Admin]:
        config = BrokerConfig({name.replace("_", "."): value for name, value in settings.items()})
        store = EmbeddedCoordination.open(tmp_path / FILE_NAME)

        def random_bytes(length: int) -> bytes:
            return next(counter).to_bytes(length, "little")

        cluster = await join_alone(store, BrokerId(0), config.endpoints, rack=None, now_ms=5, random_bytes=random_bytes)
        topics, replicas, changes = Topics(), RememberedReplicas(), Changes()
        topic_store = TopicStore(store, config)
        serving = ServeAlone(BrokerId(0), topics=topics, store=topic_store, replicas=replicas)
        topic_admin = TopicAdmin(
            config,
            cluster=cluster,
            topics=topics,
            store=topic_store,
            serving=serving,
            changes=changes,
            random_bytes=random_bytes,
        )
        config_admin = ConfigAdmin(
            BrokerId(0),
            config,
            store=store,
            topics=topics,
            replicas=replicas,
            changes=changes,
        )
        await config_admin.start()
        await serving.start(cluster.controller_epoch, was_stopped_cleanly=True)
        try:
            yield Admin(store, config, cluster, topics, replicas, topic_admin, config_admin, changes)
        finally:
            await changes.finish()
            await store.close()

    return started
