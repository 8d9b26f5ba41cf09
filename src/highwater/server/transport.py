"""Bytes to and from one peer: the seam between a connection and the world.

A connection never sees a socket. It receives into a buffer, sends pieces and file ranges, and is told when the peer is
ready; a simulated network or TLS takes the socket's place by offering the same few methods.
"""

import os
import socket
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Final, Protocol

from highwater.storage.files import File

MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)
_TCP_CLOSE: Final = 7  # of <netinet/tcp.h>: the connection is over


class Transport(Protocol):
    """One peer's byte stream, never blocking: a call that cannot proceed raises BlockingIOError."""

    peer: str

    def receive_into(self, buffer: memoryview) -> int:
        """Read what has arrived into `buffer`; 0 means that the peer has finished."""

    def send(self, data: bytes | bytearray | memoryview, *, more: bool) -> int:
        """Send a prefix of `data` and return its length; `more` promises that further data follows at once."""

    def send_file(self, file: File, position: int, length: int) -> int:
        """Send a prefix of a file's range and return its length; 0 means that the file ends before the range."""

    def watch_readable(self, callback: Callable[[], None] | None) -> None:
        """Call `callback` whenever there is something to receive; None stops it."""

    def watch_writable(self, callback: Callable[[], None] | None) -> None:
        """Call `callback` whenever there is room to send; None stops it."""

    def is_dead(self) -> bool:
        """Return whether the peer is known to be gone, even if nobody has told us so."""

    def close(self) -> None:
        """Give the connection up; safe to call twice."""


class SocketTransport:
    """A plain TCP connection on the event loop."""

    __slots__ = ("_file_descriptor", "_loop", "_socket", "peer")

    def __init__(self, loop: AbstractEventLoop, connected: socket.socket) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._loop = loop
        self._socket: socket.socket | None = connected
        self._file_descriptor = connected.fileno()
        address = connected.getpeername()
        self.peer = f"{address[0]}:{address[1]}"

    def receive_into(self, buffer: memoryview) -> int:
        """Read what has arrived into `buffer`; 0 means that the peer has finished."""
        assert self._socket is not None
        return self._socket.recv_into(buffer)

    def send(self, data: bytes | bytearray | memoryview, *, more: bool) -> int:
        """Send a prefix of `data` and return its length."""
        assert self._socket is not None
        return self._socket.send(data, MSG_MORE if more else 0)

    def send_file(self, file: File, position: int, length: int) -> int:
        """Send a prefix of a file's range without its bytes passing through this process."""
        return os.sendfile(self._file_descriptor, file.fileno(), position, length)

    def watch_readable(self, callback: Callable[[], None] | None) -> None:
        """Call `callback` whenever there is something to receive; None stops it."""
        if callback is None:
            self._loop.remove_reader(self._file_descriptor)
        else:
            self._loop.add_reader(self._file_descriptor, callback)

    def watch_writable(self, callback: Callable[[], None] | None) -> None:
        """Call `callback` whenever there is room to send; None stops it."""
        if callback is None:
            self._loop.remove_writer(self._file_descriptor)
        else:
            self._loop.add_writer(self._file_descriptor, callback)

    def is_dead(self) -> bool:
        """Ask the kernel: uvloop says nothing of a reset that comes with no data, and a paused reader hears nothing."""
        if self._socket is None:
            return True
        return self._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _TCP_CLOSE

    def close(self) -> None:
        """Close the socket; what the kernel has accepted is still delivered."""
        if self._socket is None:
            return
        self._loop.remove_reader(self._file_descriptor)
        self._loop.remove_writer(self._file_descriptor)
        self._socket.close()
        self._socket = None
