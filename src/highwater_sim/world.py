"""What is swapped: this list, and the event loop (`loop.py`). Everything else in a simulated broker is as shipped.

| seam | the real one | here |
| --- | --- | --- |
| time, timers, order, threads, outgoing connections | uvloop | `loop.SimLoop` |
| files | `OsFiles` | `disk.SimDisk` |
| incoming connections | `SocketAcceptor` | `network.SimAcceptor` |
| the cluster's memory | ZooKeeper | `coordination.SimCoordination` |
| the process that compacts | a child process | the same code on a simulated thread |
| the wall clock | the system's | virtual time, with this machine's error |
| random bytes | `secrets` | the seed |
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Executor
from functools import partial
from typing import TYPE_CHECKING

from highwater.app.world import World
from highwater.config.settings import node
from highwater.model.errors import KafkaError
from highwater.storage.compaction.compaction import Compaction
from highwater.storage.compaction.messages import Failed, Finished, Job, Report
from highwater_sim.coordination import SimCoordination
from highwater_sim.network import SimAcceptor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from highwater.config.broker_config import BrokerConfig
    from highwater.coordination.port import Coordination
    from highwater.storage.compaction.plan import CompactedGroup
    from highwater.storage.files import Files
    from highwater_sim.loop import SimLoop
    from highwater_sim.machine import Machine


class NoThreads(Executor):
    """A name for threads that there are not: the loop runs what is given to them."""


class SimCompaction:
    """The compaction of one log, as its process does it, on a thread of the simulated loop."""

    def __init__(self, files: Files, job: Job) -> None:
        self._compaction = Compaction(files, job.plan, lambda _: None)
        self._groups: Iterator[CompactedGroup] = iter(self._compaction.groups())

    async def report(self) -> Report:
        """Compact the next group."""
        return await asyncio.get_running_loop().run_in_executor(None, self._next)

    def _next(self) -> Report:
        compaction = self._compaction
        try:
            group = next(self._groups, None)
        except (KafkaError, OSError) as error:
            return Failed(f"{type(error).__name__}: {error}")
        if group is None:
            return Finished(compaction.end_offset, compaction.records_read, compaction.records_kept)
        return group

    def go_on(self) -> None:
        """Nothing: the next report is the next group."""

    def is_starving(self) -> bool:
        """Say no: threads of the simulated loop take turns."""
        return False

    async def close(self) -> None:
        """Nothing: what is not asked for is not done."""


def simulated_world(machine: Machine, loop: SimLoop) -> World:
    """Return the world of a broker that runs on a simulated machine."""

    async def connect_to_cluster(config: BrokerConfig) -> Coordination:
        session_timeout_s = config[node.ZOOKEEPER_SESSION_TIMEOUT_MS] / 1000
        return SimCoordination(machine.store, machine.network, loop, session_timeout_s=session_timeout_s)

    async def start_compaction(job: Job) -> SimCompaction:
        return SimCompaction(machine.disk, job)

    return World(
        files=machine.disk,
        disk_threads=NoThreads(),
        new_acceptor=partial(SimAcceptor, machine.host),
        connect_to_cluster=connect_to_cluster,
        start_compaction=start_compaction,
        now_ms=machine.now_ms,
        random_bytes=machine.random_bytes,
    )
