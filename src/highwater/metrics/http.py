"""A very small HTTP server: `GET /metrics`, and nothing else."""

import asyncio
from contextlib import suppress
from typing import Final

from highwater.metrics.registry import Registry

_CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_MAX_REQUEST_BYTES: Final = 8 * 1024
_MAX_CONNECTIONS: Final = 8
_TIMEOUT_SECONDS: Final = 10.0
_PIECE_BYTES: Final = 64 * 1024


class MetricsServer:
    """Serves a registry to Prometheus. Requests, connections and waiting are bounded; every connection serves once."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, host: str, port: int) -> int:
        """Listen; return the port, which the system chooses when it is 0. OSError if it is taken."""
        self._server = await asyncio.start_server(
            self._serve, host or None, port, limit=_MAX_REQUEST_BYTES, backlog=_MAX_CONNECTIONS
        )
        bound: int = self._server.sockets[0].getsockname()[1]
        return bound

    async def close(self) -> None:
        """Stop listening and drop the connections there are."""
        if self._server is None:
            return
        self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        self._connections.add(task)
        try:
            if len(self._connections) <= _MAX_CONNECTIONS:
                async with asyncio.timeout(_TIMEOUT_SECONDS):
                    await self._answer(reader, writer)
        except (TimeoutError, OSError, asyncio.LimitOverrunError, asyncio.CancelledError):
            pass  # a scraper that is slow, gone or talks too much is cut off; it will ask again
        finally:
            self._connections.discard(task)
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        status = await self._status(reader)
        writer.write(f"HTTP/1.1 {status}\r\nContent-Type: {_CONTENT_TYPE}\r\nConnection: close\r\n\r\n".encode())
        if not status.startswith("200"):
            writer.write(f"{status}\n".encode())
            await writer.drain()
            return
        piece = bytearray()
        for text in self._registry.render():
            piece += text.encode()
            if len(piece) >= _PIECE_BYTES:
                writer.write(bytes(piece))
                piece.clear()
                await writer.drain()
                await asyncio.sleep(0)  # drain() does not give way to others unless the buffer is full
        writer.write(bytes(piece))
        await writer.drain()

    async def _status(self, reader: asyncio.StreamReader) -> str:
        try:
            head = await reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError:
            return "400 Bad Request"
        words = head.split(b"\r\n", 1)[0].split(b" ")
        if len(words) != 3 or not words[2].startswith(b"HTTP/1."):
            return "400 Bad Request"
        if words[0] != b"GET":
            return "405 Method Not Allowed"
        return "200 OK" if words[1].split(b"?", 1)[0] == b"/metrics" else "404 Not Found"
