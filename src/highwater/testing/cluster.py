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
from highwater.testing.zookeeper import ZooKeeperProcess

if TYPE_CHECKING:
    from types import TracebackType

FIRST_ID: Final = 1


class ClusterProcesses:
    """Brokers 1 to `count` on a ZooKeeper of their own."""

    def __init__(
        self, count: int = 3, settings: Mapping[str, object] | None = None, *, module: str = "highwater"
    ) -> None:
        self._module = module
        replicas = min(count, 3)
        self._settings: dict[str, object] = {
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            **(settings or {}),
        }
        self._count = count
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
            self.brokers[broker_id] = BrokerProcess(
                {**self._settings, "broker.id": broker_id, "zookeeper.connect": f"{self.zookeeper.address}/highwater"},
                module=self._module,
            )
        with ThreadPoolExecutor(self._count) as starters:
            list(starters.map(BrokerProcess.start, self.brokers.values()))
        return self

    def remove(self) -> None:
        """End everything and remove all that was written."""
        for broker in self.brokers.values():
            broker.remove()
        self.zookeeper.remove()

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.remove()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()
