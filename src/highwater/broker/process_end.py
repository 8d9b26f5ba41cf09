"""Whether another broker's process has ended: its connections break, and its port refuses new ones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from highwater.broker.peer import PeerGone, PeerRefused

if TYPE_CHECKING:
    from highwater.broker.peer import Peer

REFUSALS: Final = 3
"""How often in a row a port refuses, whose connections broke, before we believe that nobody listens there."""
_PAUSE_S: Final = 0.01


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
