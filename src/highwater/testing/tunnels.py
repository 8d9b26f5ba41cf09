"""What proxies have in common: they listen, give every client a task of its own, and hang up on all when they end."""

import asyncio
import contextlib
import socket
from collections.abc import Awaitable, Callable, Coroutine
from typing import Final

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
_AGAIN_SECONDS: Final = 0.05


class Tunnels:
    """Clients of a proxy. None of their tasks is cancelled: a connection that is just being made would be left open.

    asyncio's own server would do that with what it has accepted but not yet made streams of when it is closed.
    """

    def __init__(self) -> None:
        self._listening: list[socket.socket] = []
        self._tunnels: set[asyncio.Task[None]] = set()
        self._clients: set[asyncio.StreamWriter] = set()

    def listen(self, host: str, serve: Serve) -> int:
        """Serve everyone who connects to a new port, and return it. A task ends when its client has hung up."""
        listening = socket.create_server((host, 0))
        listening.setblocking(False)
        self._listening.append(listening)
        asyncio.get_running_loop().add_reader(listening, self._accept, listening, serve)
        port: int = listening.getsockname()[1]
        return port

    async def end(self) -> None:
        """Accept nobody any more, hang up on all clients and wait until nothing of them is left."""
        while self._listening:
            listening = self._listening.pop()
            asyncio.get_running_loop().remove_reader(listening)
            listening.close()
        while self._tunnels:  # one that has just been accepted becomes a client in a moment
            for client in self._clients:
                client.transport.abort()
            await asyncio.wait(self._tunnels, timeout=_AGAIN_SECONDS)

    def _accept(self, listening: socket.socket, serve: Serve) -> None:
        try:
            connection, _ = listening.accept()
        except OSError:  # it has gone away again
            return
        tunnel = asyncio.create_task(self._serve(connection, serve))
        self._tunnels.add(tunnel)
        tunnel.add_done_callback(self._tunnels.discard)

    async def _serve(self, connection: socket.socket, serve: Serve) -> None:
        reader, writer = await asyncio.open_connection(sock=connection)
        self._clients.add(writer)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                await serve(reader, writer)
        finally:
            self._clients.discard(writer)
            writer.transport.abort()


async def until_one_ends(*pumps: Coroutine[None, None, None]) -> None:
    """Run the two directions of a connection until one of them ends, however it does."""
    tasks = [asyncio.create_task(pump) for pump in pumps]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
