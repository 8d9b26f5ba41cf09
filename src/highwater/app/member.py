"""The parts that a broker has because it is one of several: imported only with `zookeeper.connect`."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from highwater.broker.cluster import registration
from highwater.broker.config_news import ConfigNews
from highwater.broker.controller_driver import ControllerDriver
from highwater.broker.marker_router import MarkerRouter
from highwater.broker.membership import Membership
from highwater.broker.peers import Peers
from highwater.broker.remote_coordinators import RemoteCoordinators
from highwater.broker.roles import Roles
from highwater.broker.serve_cluster import ServeByController
from highwater.config.settings import network, node
from highwater.coordination import paths, records
from highwater.model.errors import KafkaError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Sequence

    from highwater.broker.cluster import Cluster
    from highwater.broker.config_admin import ConfigAdmin
    from highwater.broker.marker_sender import Writer
    from highwater.broker.replicas import Replicas
    from highwater.broker.topics import Topics
    from highwater.config.broker_config import BrokerConfig
    from highwater.config.listeners import Endpoint
    from highwater.coordination.port import Coordination
    from highwater.model.ids import BrokerId

TOLD_TIMEOUT_S: Final = 60.0
"""How long to wait for a controller at start: longer than any election takes."""


class Member:
    """One broker of a cluster."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        broker_id: BrokerId,
        config: BrokerConfig,
        endpoints: Sequence[Endpoint],
        *,
        store: Coordination,
        cluster: Cluster,
        topics: Topics,
        replicas: Replicas,
        now_ms: Callable[[], int],
    ) -> None:
        self._loop = loop
        self._broker_id = broker_id
        self._store = store
        self._config = config
        self._cluster = cluster
        self._topics = topics
        listener = config.inter_broker_endpoint.name
        self.roles = Roles(broker_id, config, store=store, cluster=cluster, topics=topics, replicas=replicas)
        self.driver = ControllerDriver(broker_id, config, store=store, roles=self.roles, listener=listener)
        self.serving = ServeByController(self.driver, cluster=cluster, topics=topics, listener=listener)
        self._membership = Membership(
            broker_id,
            registration(endpoints, rack=config[node.BROKER_RACK], now_ms=now_ms()),
            store=store,
            cluster=cluster,
            roles=self.roles,
            driver=self.driver,
            listener=listener,
            session_timeout_s=config[node.ZOOKEEPER_SESSION_TIMEOUT_MS] / 1000,
            now_ms=now_ms,
        )
        self._config_news: ConfigNews | None = None
        self.coordinators = RemoteCoordinators(loop, broker_id, self._peers("transactions"))
        self._markers: MarkerRouter | None = None

    def route_markers(self, here: Writer) -> MarkerRouter:
        """Return who brings markers to every broker; those for this one are written by `here`."""
        self._markers = MarkerRouter(
            self._loop, self._broker_id, here=here, topics=self._topics, peers=self._peers("markers")
        )
        return self._markers

    def _peers(self, purpose: str) -> Peers:
        return Peers(
            self._cluster,
            listener=self._config.inter_broker_endpoint.name,
            client_id=f"broker-{self._broker_id}-{purpose}",
            timeout_s=self._config[network.REQUEST_TIMEOUT_MS] / 1000,
        )

    async def log_dir_failed(self) -> None:
        """Tell the controller that one of our disks has failed."""
        await self._store.create(paths.LOG_DIR_EVENT, records.encode_log_dir_event(self._broker_id), sequence=True)

    async def join(self, config_admin: ConfigAdmin) -> None:
        """Register, and return once a controller has told us about the cluster."""
        self._config_news = ConfigNews(self._store, config_admin, self.driver)
        await self._config_news.start()
        await self._membership.join()
        try:
            async with asyncio.timeout(TOLD_TIMEOUT_S):
                await self.roles.told.wait()
        except TimeoutError as error:
            raise KafkaError(f"no controller has spoken to this broker in {TOLD_TIMEOUT_S:g} s") from error

    async def leave(self) -> None:
        """Let others lead what we lead, and be a member no more."""
        if self._config_news is not None:
            await self._config_news.close()
        await self._membership.leave(moves_leaders=self._config[node.CONTROLLED_SHUTDOWN_ENABLE])
        self.coordinators.close()
        if self._markers is not None:
            self._markers.close()
