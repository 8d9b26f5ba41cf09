"""A TCP proxy in front of a broker that loses an answer on demand: the append happens, the client never hears of it."""

import asyncio
import struct
import threading
from typing import Final

from highwater.testing.loop_thread import LoopThread
from highwater.testing.tunnels import Tunnels, until_one_ends

_LENGTH: Final = struct.Struct(">i")
_PORT: Final = struct.Struct(">i")
_API_KEY: Final = struct.Struct(">h")
_CORRELATION_ID: Final = struct.Struct(">i")
_CORRELATION_ID_AT: Final = 4
"""In a request; in an answer it comes first."""


class LossyProxy(LoopThread):
    """Passes frames both ways between clients and one broker, in a thread of its own.

    The broker's address is replaced by the proxy's in every answer, so that a client that has read the cluster's
    metadata still comes by here.
    """

    def __init__(self, bootstrap: str) -> None:
        super().__init__("lossy-proxy")
        host, _, port = bootstrap.rpartition(":")
        assert host == "127.0.0.1", "the two addresses must be of one length"
        self._host, self._broker_port = host, int(port)
        self._port = 0
        self._doomed_api: int | None = None
        self._lost = threading.Event()
        self._tunnels = Tunnels()

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return f"{self._host}:{self._port}"

    def lose_next_answer(self, api_key: int) -> threading.Event:
        """Cut the connection in the place of the next answer to `api_key`; the event says that it has happened."""
        self._lost = threading.Event()
        self._doomed_api = api_key
        return self._lost

    async def _begin(self) -> None:
        self._port = self._tunnels.listen(self._host, self._tunnel)

    async def _end(self) -> None:
        await self._tunnels.end()

    async def _tunnel(self, from_client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        """Pass one client's frames until either side ends, or an answer is to be lost."""
        from_broker, to_broker = await asyncio.open_connection(self._host, self._broker_port)
        doomed: set[int] = set()
        try:
            await until_one_ends(
                self._pass_requests(from_client, to_broker, doomed), self._pass_answers(from_broker, to_client, doomed)
            )
        finally:
            to_broker.transport.abort()

    async def _pass_requests(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, doomed: set[int]) -> None:
        while True:
            request = await _read_frame(source)
            if _API_KEY.unpack_from(request)[0] == self._doomed_api:
                self._doomed_api = None
                doomed.add(_CORRELATION_ID.unpack_from(request, _CORRELATION_ID_AT)[0])
            await _write_frame(sink, request)

    async def _pass_answers(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, doomed: set[int]) -> None:
        theirs = self._host.encode() + _PORT.pack(self._broker_port)
        ours = self._host.encode() + _PORT.pack(self._port)
        while True:
            answer = await _read_frame(source)
            if _CORRELATION_ID.unpack_from(answer)[0] in doomed:
                self._lost.set()
                return
            await _write_frame(sink, answer.replace(theirs, ours))


async def _read_frame(source: asyncio.StreamReader) -> bytes:
    (size,) = _LENGTH.unpack(await source.readexactly(_LENGTH.size))
    return await source.readexactly(size)


async def _write_frame(sink: asyncio.StreamWriter, body: bytes) -> None:
    sink.write(_LENGTH.pack(len(body)) + body)
    await sink.drain()
