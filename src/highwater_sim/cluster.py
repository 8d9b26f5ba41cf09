"""Simulated machines, three or more, the store, the network between them, and a machine for the clients."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from highwater_sim.coordination import STORE_HOST
from highwater_sim.loop import SimLoop
from highwater_sim.machine import Machine, let_go
from highwater_sim.network import Network
from highwater_sim.scheduler import Scheduler
from highwater_sim.store import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

CLIENTS: Final = "clients"
COORDINATOR_PARTITIONS: Final = 2
"""Of each of the topics that coordinators write."""
SETTINGS: Final[Mapping[str, str]] = {
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "4000",
    "controller.socket.timeout.ms": "5000",
    "replica.socket.timeout.ms": "5000",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "offsets.topic.num.partitions": str(COORDINATOR_PARTITIONS),
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.num.partitions": str(COORDINATOR_PARTITIONS),
    "auto.create.topics.enable": "false",
    "log.segment.bytes": "16384",
    "log.index.size.max.bytes": "4096",
    "log.index.interval.bytes": "512",
    "leader.imbalance.check.interval.seconds": "15",
    "group.initial.rebalance.delay.ms": "100",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
"""Small and impatient, so that a minute sees rolled segments, lost sessions and elections."""


class Cluster:
    """Everything that a simulation consists of, from the same seed always the same."""

    def __init__(self, seed: int, *, brokers: int = 3, settings: Mapping[str, str] | None = None) -> None:
        self.scheduler = Scheduler(seed)
        self.network = Network(self.scheduler)
        self.network.host(STORE_HOST)
        self.store = Store()
        self.bugs: list[str] = []
        """What nothing in a broker caught."""
        self.on_bug: Callable[[str], None] = self.bugs.append
        self.machines = [
            Machine(
                broker_id,
                scheduler=self.scheduler,
                network=self.network,
                store=self.store,
                settings={**SETTINGS, **(settings or {})},
                on_bug=self._bug,
            )
            for broker_id in range(1, brokers + 1)
        ]
        self.client_loop = SimLoop(self.scheduler, self.network.host(CLIENTS), self._bug)  # type: ignore[abstract]  # it has what is used
        self._client_tasks: list[asyncio.Task[Any]] = []
        self.client_requests = 0
        self.is_disposed = False

    def _bug(self, message: str, error: BaseException | None) -> None:
        self.note_bug(f"{message}: {error!r}")

    def note_bug(self, what: str) -> None:
        """Tell of a bug once the event that showed it is over: nothing in a broker may catch what is then raised."""
        if not self.is_disposed:
            self.scheduler.after(0.0, lambda: self.on_bug(what))

    def machine(self, broker_id: int) -> Machine:
        """Return a broker's machine."""
        return self.machines[broker_id - 1]

    def start(self, *, but_for: int = 0) -> None:
        """Start every broker but for the last few."""
        for machine in self.machines[: len(self.machines) - but_for]:
            machine.start()

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run something on the clients' machine."""
        task = self.client_loop.create_task(work)
        self._client_tasks.append(task)
        return task

    def run_until_done(self, task: asyncio.Task[Any], *, within_s: float) -> Any:
        """Let time pass until a client is done; TimeoutError if it takes too long."""
        deadline = self.scheduler.now + within_s
        while not task.done():
            if self.scheduler.now > deadline or not self.scheduler.step():
                raise TimeoutError(f"not done within {within_s:g} s of virtual time")
        return task.result()

    def dispose(self) -> None:
        """Let go of everything."""
        self.is_disposed = True
        for machine in self.machines:
            machine.dispose()
        for task in self.client_loop.die():
            let_go(task)
        self._client_tasks.clear()
        self.scheduler.clear()
        self.network.connections.clear()
        self.store.on_change.clear()
