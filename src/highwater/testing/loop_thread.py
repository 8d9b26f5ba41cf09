"""A server with an event loop in a thread of its own, beside a test that blocks."""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Self, TypeVar

from highwater.testing.with_block import WithBlock

ResultT = TypeVar("ResultT")


class LoopThread(WithBlock, ABC):
    """Runs `_serve` in a thread for the length of a `with` block."""

    def __init__(self, name: str) -> None:
        self._started: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name=name)

    def start(self) -> Self:
        """Start the thread and wait until it serves."""
        self._thread.start()
        self._started.result()
        return self

    def remove(self) -> None:
        """End the thread."""
        if self._started.exception() is None:
            loop, stop = self._started.result()
            loop.call_soon_threadsafe(stop.set)
        self._thread.join()

    def do(self, work: Coroutine[None, None, ResultT]) -> ResultT:
        """Have the thread do something, and wait for it."""
        loop, _ = self._started.result()
        return asyncio.run_coroutine_threadsafe(work, loop).result()

    @abstractmethod
    async def _begin(self) -> None:
        """Begin to serve."""

    @abstractmethod
    async def _end(self) -> None:
        """End what was begun."""

    async def _run(self) -> None:
        stop = asyncio.Event()
        try:
            await self._begin()
        except OSError as error:
            self._started.set_exception(error)
            return
        self._started.set_result((asyncio.get_running_loop(), stop))
        await stop.wait()
        await self._end()
