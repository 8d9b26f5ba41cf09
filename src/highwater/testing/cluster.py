"""A real cluster as child processes: a ZooKeeper and several brokers, each of which can be killed and started again.

with ClusterProcesses(3) as cluster:
    client = Producer({"bootstrap.servers": cluster.bootstrap_servers})
    cluster.brokers[1].kill()
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, Self

from highwater.testing.broker import BrokerProcess
from highwater.testing.network import ZOOKEEPER
from highwater.testing.ports import HOST, free_port
from highwater.testing.with_block import WithBlock
from highwater.testing.zookeeper import ZooKeeperProcess

if TYPE_CHECKING:
    from highwater.testing.network import Network

FIRST_ID: Final = 1


class ClusterProcesses(WithBlock):
    """Brokers 1 to `count` on a ZooKeeper of their own; with a `network`, they speak to each other through it."""

    def __init__(
        self,
        count: int = 3,
        settings: Mapping[str, object] | None = None,
        *,
        module: str = "highwater",
        network: Network | None = None,
        own_settings: Mapping[int, Mapping[str, object]] | None = None,
    ) -> None:
        """`own_settings` are those of single brokers, by their ids."""
        self._own_settings = own_settings or {}
        self._module = module
        replicas = min(count, 3)
        self._settings: dict[str, object] = {
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            **(settings or {}),
        }
        self._count = count
        self._network = network
        self.zookeeper = ZooKeeperProcess()
        self.brokers: dict[int, BrokerProcess] = {}

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, running or not."""
        return ",".join(broker.bootstrap_servers for broker in self.brokers.values())

    @property
    def running(self) -> list[BrokerProcess]:
        """The brokers that are alive."""
        return [broker for broker in self.brokers.values() if broker.is_running]

    def start(self) -> Self:
        """Start ZooKeeper, then all brokers at once; return when every one is ready."""
        self.zookeeper.start()
        for broker_id in range(FIRST_ID, FIRST_ID + self._count):
            self.brokers[broker_id] = self._broker(broker_id)
        with ThreadPoolExecutor(self._count) as starters:
            list(starters.map(BrokerProcess.start, self.brokers.values()))
        return self

    def _broker(self, broker_id: int) -> BrokerProcess:
        settings = {**self._settings, "broker.id": broker_id, **self._own_settings.get(broker_id, {})}
        if self._network is None:
            settings["zookeeper.connect"] = f"{self.zookeeper.address}/highwater"
            return BrokerProcess(settings, module=self._module)
        port, internal_port = free_port(), free_port()
        seen = self._network.stand_before((HOST, internal_port), broker_id)
        zookeeper = self._network.stand_before((HOST, self.zookeeper.port), ZOOKEEPER, asked_by=broker_id)
        listeners = {
            "listeners": f"CLIENTS://{HOST}:{port},BROKERS://{HOST}:{internal_port}",
            "advertised.listeners": f"CLIENTS://{HOST}:{port},BROKERS://{HOST}:{seen}",
            "listener.security.protocol.map": "CLIENTS:PLAINTEXT,BROKERS:PLAINTEXT",
            "inter.broker.listener.name": "BROKERS",
            "zookeeper.connect": f"{HOST}:{zookeeper}/highwater",
        }
        return BrokerProcess({**settings, **listeners}, port=port, module=self._module)

    def remove(self) -> None:
        """End everything and remove all that was written."""
        for broker in self.brokers.values():
            broker.remove()
        self.zookeeper.remove()
