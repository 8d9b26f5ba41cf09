"""Threads for what waits for a disk: few, but never all of them at a disk that hangs."""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import Executor, Future
from functools import partial
from threading import Condition, Thread, current_thread
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")

HUNG_AFTER_S: Final = 1.0
"""A thread that has been at one task for so long does not count any more; another may work in its place."""
MOST_THREADS: Final = 64


class DiskThreads(Executor):
    """Lets a few tasks run at once, not counting those that hang; up to a bound.

    Whenever all threads are at work there is one more, which waits: it begins when one of the others is done, or hangs.
    """

    def __init__(self, at_once: int, *, hung_after_s: float = HUNG_AFTER_S, most_threads: int = MOST_THREADS) -> None:
        self._at_once = at_once
        self._hung_after_s = hung_after_s
        self._most_threads = most_threads
        self._changed = Condition()
        self._tasks: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._threads: set[Thread] = set()
        self._at_work_since: dict[Thread, float] = {}
        self._is_shut_down = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have something done on a thread."""
        future: Future[T] = Future()
        with self._changed:
            if self._is_shut_down:
                raise RuntimeError("the disk threads have ended")
            self._tasks.append((future, partial(fn, *args, **kwargs)))
            self._keep_one_in_waiting()
            self._changed.notify()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - as it is declared
        """Take nothing more, and end when everything is done."""
        with self._changed:
            self._is_shut_down = True
            while cancel_futures and self._tasks:
                self._tasks.popleft()[0].cancel()
            threads = list(self._threads)
            self._changed.notify_all()
        for thread in threads if wait else ():
            thread.join()

    def _keep_one_in_waiting(self) -> None:
        if self._tasks and len(self._threads) == len(self._at_work_since) < self._most_threads:
            thread = Thread(target=self._work, name="disk", daemon=True)
            self._threads.add(thread)
            thread.start()

    def _work(self) -> None:
        while (task := self._next()) is not None:
            _run(*task)
            del task  # nobody waits for the next one to let go of what this one held

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        """Return what to do next, as soon as it is this thread's turn; None at the end."""
        me = current_thread()
        with self._changed:
            self._at_work_since.pop(me, None)
            while not (self._tasks and self._has_room()):
                if self._is_shut_down and not self._tasks:
                    self._threads.discard(me)
                    return None
                # While tasks wait, somebody has to see that a thread hangs, which tells nobody.
                self._changed.wait(self._hung_after_s if self._tasks else None)
            self._at_work_since[me] = time.monotonic()
            task = self._tasks.popleft()
            self._keep_one_in_waiting()
            return task

    def _has_room(self) -> bool:
        hung_since = time.monotonic() - self._hung_after_s
        return sum(since > hung_since for since in self._at_work_since.values()) < self._at_once


def _run(future: Future[T], work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited
        future.set_exception(error)
    else:
        future.set_result(result)
