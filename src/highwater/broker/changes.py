"""Changes of the cluster's memory: one after another, each to its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


class Changes:
    """Runs changes in turn. One that has begun is finished even if the client that asked for it hangs up.

    A topic that is written down but not served, because a connection broke in between, would be there after a restart
    only.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._running: set[asyncio.Task[Any]] = set()

    async def run(self, change: Coroutine[Any, Any, T]) -> T:
        """Return what `change` returns, once it is its turn and it is done."""
        task = asyncio.get_running_loop().create_task(self._in_turn(change))
        self._running.add(task)
        task.add_done_callback(self._done)
        return await asyncio.shield(task)

    async def finish(self) -> None:
        """Wait for the changes that have been asked for."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _in_turn(self, change: Coroutine[Any, Any, T]) -> T:
        async with self._turn:
            return await change

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asked has it, or no longer wants it
