"""One simulated machine: a host in the network, a disk, a clock, and the broker's process that runs on it."""

from __future__ import annotations

import asyncio
import inspect
from random import Random
from typing import TYPE_CHECKING, Any, Final

from highwater.app.node import CannotStart, Node
from highwater.config.broker_config import BrokerConfig
from highwater_sim.disk import SimDisk
from highwater_sim.loop import ProcessDied, SimLoop
from highwater_sim.world import simulated_world

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from highwater_sim.network import Host, Network
    from highwater_sim.scheduler import Scheduler
    from highwater_sim.store import Store

FIRST_MS: Final = 1_700_000_000_000
"""What the clocks show when a simulation begins."""
PORT: Final = 9092
DATA: Final = "/data"
LOG_DIRS: Final = (DATA, "/more")
"""For brokers that have two; they lose power and are wiped together, and break one by one."""
RESTART_S: Final = 1.0
"""A broker that could not start is started again, as a service manager would."""


def let_go(task: asyncio.Task[Any]) -> None:
    """Let a task of a dead process be collected without a word."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - it is meant
    work = task.get_coro()
    if inspect.iscoroutine(work) and inspect.getcoroutinestate(work) == inspect.CORO_CREATED:
        work.close()


class Machine:
    """A machine that may lose its power, and a broker that may be killed, paused and started on it."""

    def __init__(
        self,
        broker_id: int,
        *,
        scheduler: Scheduler,
        network: Network,
        store: Store,
        settings: Mapping[str, str],
        on_bug: Callable[[str, BaseException | None], None],
    ) -> None:
        self.broker_id = broker_id
        self.name = f"broker{broker_id}"
        self.scheduler = scheduler
        self.network = network
        self.store = store
        self.host: Host = network.host(self.name)
        self.clock_error_ms = 0
        self._random = Random(scheduler.random.getrandbits(64))
        self.disk = SimDisk(Random(scheduler.random.getrandbits(64)), self.now_ms)
        self._settings = {
            "broker.id": str(broker_id),
            "listeners": f"PLAINTEXT://{self.name}:{PORT}",
            "log.dirs": DATA,
            "zookeeper.connect": "simulated",
            **settings,
        }
        if "replica.selector.class" in settings:
            self._settings["broker.rack"] = self.name
        self.log_dirs = self._settings["log.dirs"].split(",")
        self._on_bug = on_bug
        self._kept: list[Any] = []
        self._main: asyncio.Task[None] | None = None
        self.node: Node | None = None
        self.loop: SimLoop | None = None
        self.starts = 0
        """How often a broker was started on it."""
        self.is_serving = False
        self.is_doomed = False
        """Whether it dies before one of the next changes of its disk."""
        self.on_turn: Callable[[Machine], None] = lambda _: None
        self.on_started: Callable[[Machine], None] = lambda _: None

    def now_ms(self) -> int:
        """Return what this machine's clock shows."""
        return FIRST_MS + int(self.scheduler.now * 1000) + self.clock_error_ms

    def random_bytes(self, count: int) -> bytes:
        """Return bytes that the seed decides."""
        return self._random.randbytes(count)

    @property
    def is_up(self) -> bool:
        """Whether there is a process."""
        return self.loop is not None

    @property
    def is_paused(self) -> bool:
        """Whether the process is stopped for now."""
        return self.loop is not None and self.loop.is_paused

    # The process ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a broker with what is on the disk."""
        assert self.loop is None, "one broker at a time"
        self.starts += 1
        if not self.host.has_power:
            self.host.power_returned()
        loop = self.loop = SimLoop(self.scheduler, self.host, self._on_bug)  # type: ignore[abstract]  # it has what is used
        loop.on_turn = lambda: self.on_turn(self)
        loop.on_died = self.kill
        self._run(loop, self._serve(loop))

    def _run(self, loop: SimLoop, work: Coroutine[Any, Any, None]) -> None:
        self._main = loop.create_task(work)

    async def _serve(self, loop: SimLoop) -> None:
        self.node = node = Node(loop, BrokerConfig(self._settings), simulated_world(self, loop))
        try:
            await node.start()
        except CannotStart:
            await node.stop()
            self._ended(loop)
            self.scheduler.after(RESTART_S, self._start_again)
            return
        self.is_serving = True
        self.on_started(self)

    def _start_again(self) -> None:
        if self.loop is None and self.host.has_power:
            self.start()

    def stop(self) -> None:
        """Ask the broker to stop in an orderly way."""
        loop, node = self.loop, self.node
        if loop is None or node is None or not self.is_serving:
            return
        self.is_serving = False

        async def stop() -> None:
            await node.stop()
            self._ended(loop)

        self._run(loop, stop())

    def kill(self) -> None:
        """End the process at once; the machine, with all that was written, stays."""
        if self.loop is not None:
            self._ended(self.loop)

    def _ended(self, loop: SimLoop) -> None:
        if self.loop is not loop:
            return
        # What was under way is kept: collected, it would run the `finally` clauses that a killed process never runs.
        self._kept += [self.node, self._main, *loop.die()]
        self.is_doomed = False
        self.disk.before_change = lambda: None
        self.disk.process_ended()
        if self.host.has_power:
            self.host.process_ended(loop)
        self.loop = self.node = self._main = None
        self.is_serving = False

    def lose_power(self) -> None:
        """End everything at once, and lose what was not synced."""
        self.host.power_lost(self.loop)
        self.kill()
        self.disk.lose_power()

    def pause(self) -> None:
        """Stop the process for now, as with SIGSTOP."""
        if self.loop is not None:
            self.loop.pause()

    def resume(self) -> None:
        """Let it go on."""
        if self.loop is not None:
            self.loop.resume()

    def dies_within(self, changes: int) -> None:
        """Let the process die in the middle of its work: before one of the next changes of its disk."""

        def before_change() -> None:
            nonlocal changes
            changes -= 1
            if changes < 0 and self.loop is not None:
                self.loop.is_dying = True
                raise ProcessDied

        self.is_doomed = True
        self.disk.before_change = before_change

    def dispose(self) -> None:
        """Let go of everything, with nothing of it running any more."""
        self.kill()
        for thing in self._kept:
            if isinstance(thing, asyncio.Task):
                let_go(thing)
        self._kept.clear()
