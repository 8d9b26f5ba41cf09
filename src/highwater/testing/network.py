"""A network that can be cut: every connection between brokers, and from a broker to ZooKeeper, passes through here.

with Network() as network:
    port = network.stand_before(("127.0.0.1", 9092), name=1)     # what broker 1 advertises to the other brokers
    network.cut(1, 2)                                            # neither hears the other any more
    network.heal()

What is cut is not closed: bytes wait, as packets do that are sent again and again, and new connections are accepted and
hear nothing. Who connects is known by the client id that brokers give; ZooKeeper has an address of its own for each.
"""

from __future__ import annotations

import asyncio
import re
import struct
from collections.abc import Hashable
from typing import Final

from highwater.testing.loop_thread import LoopThread
from highwater.testing.ports import HOST
from highwater.testing.tunnels import Tunnels, until_one_ends

Place = Hashable
"""Who may be cut off from whom: the id of a broker, or `ZOOKEEPER`."""
ZOOKEEPER: Final = "zookeeper"

_CLIENT_ID_AT: Final = 12
"""In the first frame of a connection: after its size, the API, its version and the correlation id."""
_CLIENT_ID: Final = re.compile(rb"(?:broker|controller)-(\d+)")
_LENGTH: Final = struct.Struct(">h")
_CHUNK_BYTES: Final = 65_536


class Network(LoopThread):
    """Proxies in a thread of its own, and which of the ways between them are cut."""

    def __init__(self) -> None:
        super().__init__("network")
        self._cut: set[tuple[Place, Place]] = set()
        self._changed: asyncio.Condition | None = None
        self._tunnels = Tunnels()

    def stand_before(self, target: tuple[str, int], name: Place, *, asked_by: Place | None = None) -> int:
        """Return the port of a proxy for the server called `name`; `asked_by` is who uses it, if only one does."""
        return self.do(self._listen(target, name, asked_by))

    def cut(self, one: Place, other: Place, *, both_ways: bool = True) -> None:
        """Let nothing pass from `one` to `other`, nor back."""
        self.do(self._change(self._cut | {(one, other)} | ({(other, one)} if both_ways else set())))

    def heal(self) -> None:
        """Let everything pass that waits, and what comes."""
        self.do(self._change(set()))

    # In the thread --------------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        self._changed = asyncio.Condition()

    async def _end(self) -> None:
        await self._change(set())  # who waits for a way that is cut would not see that all hang up
        await self._tunnels.end()

    async def _change(self, cut: set[tuple[Place, Place]]) -> None:
        assert self._changed is not None
        async with self._changed:
            self._cut = cut
            self._changed.notify_all()

    async def _listen(self, target: tuple[str, int], name: Place, asked_by: Place | None) -> int:
        async def tunnel(from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
            """Pass bytes both ways until either side ends."""
            client, first = (asked_by, b"") if asked_by is not None else await _introduction(from_client)
            await self._open(client, name)
            from_server, to_server = await asyncio.open_connection(*target)
            try:
                to_server.write(first)
                await until_one_ends(
                    self._pump(from_client, to_server, client, name),
                    self._pump(from_server, to_client, name, client),
                )
            finally:
                to_server.transport.abort()

        return self._tunnels.listen(HOST, tunnel)

    async def _pump(
        self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, sender: Place, receiver: Place
    ) -> None:
        while data := await source.read(_CHUNK_BYTES):
            await self._open(sender, receiver)
            sink.write(data)
            await sink.drain()
        await self._open(sender, receiver)  # that it hung up is not heard either

    async def _open(self, sender: Place, receiver: Place) -> None:
        """Return when this way is not cut."""
        if (sender, receiver) in self._cut:
            assert self._changed is not None
            async with self._changed:
                await self._changed.wait_for(lambda: (sender, receiver) not in self._cut)


async def _introduction(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Read as much of a connection's first frame as says which broker it comes from; -1 if none."""
    head = await reader.readexactly(_CLIENT_ID_AT + _LENGTH.size)
    client_id = await reader.readexactly(_LENGTH.unpack_from(head, _CLIENT_ID_AT)[0])
    named = _CLIENT_ID.match(client_id)
    return -1 if named is None else int(named[1]), head + client_id
