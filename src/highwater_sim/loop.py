"""An asyncio event loop in virtual time: one for each simulated process, all driven by one scheduler.

What a process asked to run "soon" runs in the order asked, as in asyncio. All else is the seed's: which process has its
turn, how long a turn or a thread takes, and what comes first of what is due at the same time.
"""

from __future__ import annotations

import asyncio
import contextvars
from asyncio import AbstractEventLoop, Future, Handle, Task, TimerHandle
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from highwater_sim.network import Host
    from highwater_sim.scheduler import Scheduler

LONGEST_TURN_S: Final = 0.0001
"""Before a process has its turn, others may have theirs."""
THREADS: Final = 2
"""How many functions given to threads run side by side, as in the real broker."""


class ProcessDied(BaseException):
    """The process is gone in the middle of what it did. No handler of the code that runs in it may catch this."""


def _nothing() -> None:
    """Stand for what was cancelled."""


class SimHandle(Handle):
    """asyncio's handle, without what its debugging needs: a hundred thousand are made in every seed."""

    __slots__ = ()
    _callback: Callable[..., object]
    _context: contextvars.Context

    def __init__(
        self,
        callback: Callable[..., object],
        args: Sequence[Any],
        loop: AbstractEventLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = contextvars.copy_context() if context is None else context
        self._cancelled = False

    def cancel(self) -> None:
        """Do not run any more."""
        self._cancelled = True
        self._callback, self._args = _nothing, ()


class SimTimer(SimHandle, TimerHandle):
    """A handle that waits for its time."""

    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: Sequence[Any],
        loop: AbstractEventLoop,
        context: contextvars.Context | None,
    ) -> None:
        super().__init__(callback, args, loop, context)
        self._when = when


class SimLoop(AbstractEventLoop):
    """The loop of one process, from its start until it ends or is killed."""

    def __init__(self, scheduler: Scheduler, host: Host, on_bug: Callable[[str, BaseException | None], None]) -> None:
        self._scheduler = scheduler
        self._on_bug = on_bug
        self._ready: deque[SimHandle] = deque()
        self._has_turn = False
        """A turn is on its way."""
        self._threads_free_at = [0.0] * THREADS
        self._held: list[Callable[[], None]] = []
        self.host = host
        self.on_turn: Callable[[], None] = lambda: None
        """Called after every turn."""
        self.on_died: Callable[[], None] = lambda: None
        """Called when the process died in the middle of a turn."""
        self.thread_seconds = (0.0001, 0.002)
        """How long a function takes on a thread, at least and at most."""
        self.is_dead = False
        self.is_dying = False
        """The process has come to its end, and what is under way must not go on."""
        self.is_paused = False

    # The life of the process ----------------------------------------------------------------------------------------

    def pause(self) -> None:
        """Stop, as with SIGSTOP: nothing runs, what is due waits."""
        self.is_paused = True

    def resume(self) -> None:
        """Go on."""
        self.is_paused = False
        held, self._held = self._held, []
        for action in held:
            self._scheduler.after(0.0, action)
        self._want_turn()

    def die(self) -> list[Task[Any]]:
        """End at once, as with SIGKILL: nothing runs any more. Return what was under way, to be kept until the end."""
        self.is_dead = True
        self._ready.clear()
        self._held.clear()
        return sorted(asyncio.all_tasks(self), key=lambda task: task.get_name())

    def _want_turn(self) -> None:
        if self._ready and not self._has_turn and not self.is_dead and not self.is_paused:
            scheduler = self._scheduler
            self._has_turn = True
            scheduler.after(LONGEST_TURN_S * scheduler.random.random(), self._run_turn)

    def _run_turn(self) -> None:
        """Run what is ready by now; what becomes ready meanwhile has to wait for the next turn."""
        self._has_turn = False
        if self.is_dead or self.is_paused:
            return
        ready = self._ready
        asyncio._set_running_loop(self)  # noqa: SLF001 - asyncio's own door for other event loops
        try:
            for _ in range(len(ready)):
                if not ready:
                    break  # it died, and left nothing to run
                handle = ready.popleft()
                if handle._cancelled:  # noqa: SLF001 - as asyncio's own loops do
                    continue
                try:
                    handle._context.run(handle._callback, *handle._args)  # noqa: SLF001 - as above
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 - whatever it is, nothing else caught it
                    message = f"Exception in callback {handle._callback}"  # noqa: SLF001 - as above
                    self.call_exception_handler({"message": message, "exception": error})
                if self.is_dying:
                    break
        finally:
            asyncio._set_running_loop(None)  # noqa: SLF001 - see above
        if self.is_dying:
            self.on_died()
            return
        self.on_turn()
        self._want_turn()

    def _when_running(self, action: Callable[[], None]) -> Callable[[], None]:
        """Return `action` as what happens only in a process that runs: one that is paused does it when it goes on."""

        def act() -> None:
            if self.is_dead:
                return
            if self.is_paused:
                self._held.append(act)
            else:
                action()

        return act

    # Callbacks and timers -------------------------------------------------------------------------------------------

    def time(self) -> float:
        """Return the virtual time, which never jumps back."""
        return self._scheduler.now

    def call_soon(  # type: ignore[override]  # of any arguments, as typeshed said until it could say more
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> Handle:
        """Run `callback` in the next turn, after what was asked for before."""
        handle = SimHandle(callback, args, self, context)
        if not self.is_dead:
            self._ready.append(handle)
            if not self._has_turn:
                self._want_turn()
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # see above

    def call_later(  # type: ignore[override]  # see above
        self, delay: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> TimerHandle:
        """Run `callback` in `delay` seconds."""
        return self.call_at(self._scheduler.now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]  # see above
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> TimerHandle:
        """Run `callback` at a time of this loop's clock."""
        timer = SimTimer(when, callback, args, self, context)
        self._scheduler.at(when, partial(self._ring, timer))
        return timer

    def _ring(self, timer: SimTimer) -> None:
        if not timer._cancelled and not self.is_dead:  # noqa: SLF001 - once per event
            self._ready.append(timer)
            if not self._has_turn:
                self._want_turn()

    # Tasks and threads ----------------------------------------------------------------------------------------------

    def create_future(self) -> Future[Any]:
        """Return a future of this loop."""
        return Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Any = None) -> Task[Any]:  # type: ignore[override]
        """Run a coroutine."""
        return Task(coro, loop=self, name=name, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Future[Any]:  # type: ignore[override]
        """Run a function beside the loop: at one moment of the time that it takes, which others may use."""
        del executor
        scheduler, future = self._scheduler, self.create_future()
        thread = min(range(THREADS), key=self._threads_free_at.__getitem__)
        begins = max(scheduler.now, self._threads_free_at[thread])
        ends = begins + scheduler.between(*self.thread_seconds)
        self._threads_free_at[thread] = ends

        def settle(result: Any, error: Exception | None) -> None:
            scheduler.at(ends, self._when_running(lambda: self._settle_soon(future, result, error)))

        def run() -> None:
            try:
                settle(func(*args), None)
            except ProcessDied:
                self.on_died()
            except Exception as error:  # noqa: BLE001 - it is told to whoever waits, as a thread pool does
                settle(None, error)

        scheduler.at(scheduler.between(begins, ends), self._when_running(run))
        return future

    def _settle_soon(self, future: Future[Any], result: Any, error: Exception | None) -> None:
        def settle() -> None:
            if future.done():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        self.call_soon(settle)

    # The network ----------------------------------------------------------------------------------------------------

    async def create_connection(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.BufferedProtocol], host: str, port: int
    ) -> tuple[asyncio.Transport, asyncio.BufferedProtocol]:
        """Connect to another simulated process."""
        return await self.host.connect(self, protocol_factory, host, port)

    # What asyncio wants to know -------------------------------------------------------------------------------------

    def get_debug(self) -> bool:
        """Return False: virtual time needs no slow-callback warnings."""
        return False

    def is_running(self) -> bool:
        """Return whether the process is alive."""
        return not self.is_dead

    def is_closed(self) -> bool:
        """Return False: a dead process's loop takes everything and runs nothing."""
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Take note of what nothing else caught: it is a bug, or the end of this process."""
        if not self.is_dead and not self.is_dying:
            self._on_bug(str(context.get("message", "")), context.get("exception"))
