"""Whether another broker's process has ended: its connections break, and its port refuses new ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from highwater.broker.peer import PeerGone, PeerRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from highwater.broker.peer import Peer

REFUSALS: Final = 3
"""How often in a row a port refuses, whose connections broke, before we believe that nobody listens there."""
SETTLED_S: Final = 1.0
"""A connection that lasted this long was one to the broker; a shorter one may end at a proxy that stands before it."""
_PAUSE_S: Final = 0.01


class ProcessWatch:
    """Keeps a connection open, and tells once nobody listens at its other end any more."""

    def __init__(
        self,
        peer: Peer,
        on_end: Callable[[], Coroutine[Any, Any, None]],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._peer = peer
        self._on_end = on_end
        self._spawn = spawn
        self._connected_at = 0.0
        self._pause_s = 0.0

    def start(self) -> None:
        """Connect, and look again whenever the connection breaks."""
        self._peer.on_broken = self._look
        self._look()

    def _look(self) -> None:
        self._spawn(self._see())

    async def _see(self) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() - self._connected_at > SETTLED_S:
            self._pause_s = 0.0
        else:
            self._pause_s = min(max(2 * self._pause_s, _PAUSE_S), SETTLED_S)
            await asyncio.sleep(self._pause_s)
        if await has_ended(self._peer):
            await self._on_end()
        else:
            self._connected_at = loop.time()


async def has_ended(peer: Peer) -> bool:
    """Ask at the other broker's address a few times in a row; it stays connected if somebody answers.

    A process that is slow or stopped still accepts connections, by its kernel, and a machine that is cut off does not
    refuse them: neither has ended.
    """
    for refusal in range(REFUSALS):
        if refusal:
            await asyncio.sleep(_PAUSE_S)
        try:
            await peer.connect()
        except PeerRefused:
            continue
        except PeerGone:
            return False
        else:
            return False
    return True
