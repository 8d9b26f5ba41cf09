"""The two ends of a simulated connection: what a broker's server sees, and what asyncio's protocols see."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from highwater.storage.files import File
    from highwater_sim.loop import SimLoop
    from highwater_sim.network import Connection

KERNEL_BUFFER_BYTES: Final = 256 * 1024
"""What may be under way in one direction before a sender has to wait."""
SLOW_READER_BYTES: Final = 200
"""The same, while the receiver takes nothing."""


class End(ABC):
    """One side of a connection, in a process."""

    def __init__(self, connection: Connection, loop: SimLoop) -> None:
        self.connection = connection
        self.loop = loop

    @abstractmethod
    def arrived(self, data: bytes) -> None:
        """Take bytes."""

    @abstractmethod
    def finished(self) -> None:
        """Learn that the other side sends no more."""

    @abstractmethod
    def broken(self, error: OSError) -> None:
        """Learn that the connection is no more."""

    def has_room(self) -> None:  # noqa: B027 - who never waits for room need not know
        """Learn that more can be sent."""


class BrokerEnd(End):
    """What the broker's server sees: its `Transport`."""

    def __init__(self, connection: Connection, loop: SimLoop, peer_host: str) -> None:
        super().__init__(connection, loop)
        self.peer = f"{peer_host}:0"
        self.peer_host = peer_host
        self._received: deque[bytes] = deque()
        self._is_finished = False
        self._error: OSError | None = None
        self._on_readable: Callable[[], None] | None = None
        self._on_writable: Callable[[], None] | None = None
        self._is_told = False
        self._is_closed = False

    # The network's side

    def arrived(self, data: bytes) -> None:
        """Keep bytes until they are read."""
        if not self._is_closed:
            self._received.append(data)
            self._tell()

    def finished(self) -> None:
        """Let the reader find the end."""
        self._is_finished = True
        self._tell()

    def broken(self, error: OSError) -> None:
        """Let the reader find the error."""
        self._error = error
        self._tell()

    def has_room(self) -> None:
        """Tell who waits to write."""
        if self._on_writable is not None:
            self.loop.call_soon(self._writable)

    def _tell(self) -> None:
        if self._on_readable is not None and not self._is_told and not self._is_closed:
            self._is_told = True
            self.loop.call_soon(self._readable)

    def _readable(self) -> None:
        self._is_told = False
        if self._on_readable is not None:
            self._on_readable()
            if self._received or self._is_finished or self._error is not None:
                self._tell()

    def _writable(self) -> None:
        if self._on_writable is not None:
            self._on_writable()

    # The broker's side

    def receive_into(self, buffer: memoryview) -> int:
        """Read what has arrived into `buffer`; 0 means that the peer has finished."""
        if not self._received:
            if self._error is not None:
                raise self._error
            if self._is_finished:
                return 0
            raise BlockingIOError
        data = self._received.popleft()
        taken = min(len(data), len(buffer))
        buffer[:taken] = data[:taken]
        if taken < len(data):
            self._received.appendleft(data[taken:])
        self.connection.pipe_to(self).taken(taken)
        return taken

    def send(self, data: bytes | bytearray | memoryview, *, more: bool) -> int:
        """Send a prefix of `data` and return its length."""
        del more
        if self._error is not None:
            raise self._error
        pipe = self.connection.pipe_from(self)
        room = pipe.room_bytes - pipe.under_way_bytes
        if room <= 0:
            raise BlockingIOError
        piece = bytes(data[:room])
        pipe.put(piece)
        return len(piece)

    def send_file(self, file: File, position: int, length: int) -> int:
        """Send a prefix of a file's range."""
        data = file.read(position, length)
        return self.send(data, more=False) if data else 0

    def watch_readable(self, callback: Callable[[], None] | None) -> None:
        """Call `callback` whenever there is something to receive; None stops it."""
        self._on_readable = callback
        if self._received or self._is_finished or self._error is not None:
            self._tell()

    def watch_writable(self, callback: Callable[[], None] | None) -> None:
        """Call `callback` whenever there is room to send; None stops it."""
        self._on_writable = callback
        pipe = self.connection.pipe_from(self)
        if callback is not None and pipe.under_way_bytes < pipe.room_bytes:
            self.has_room()

    def is_dead(self) -> bool:
        """Return whether the connection is over."""
        return self._is_closed or self._error is not None

    def close(self) -> None:
        """Give the connection up."""
        if not self._is_closed:
            self._is_closed = True
            self._on_readable = self._on_writable = None
            self.connection.closed_by(self)


class ProtocolEnd(End, asyncio.Transport):
    """What asyncio's protocols see: the outgoing side."""

    def __init__(self, connection: Connection, loop: SimLoop, protocol: asyncio.BufferedProtocol) -> None:
        End.__init__(self, connection, loop)
        asyncio.Transport.__init__(self)
        self._protocol = protocol
        self._received: deque[bytes] = deque()
        self._is_told = False
        self._is_closed = False
        self._is_slow = False

    # The network's side

    def arrived(self, data: bytes) -> None:
        """Give bytes to the protocol, in the process's next turn."""
        if self._is_closed:
            return
        self._received.append(data)
        if not self._is_told:
            self._is_told = True
            self.loop.call_soon(self._feed)

    def read_slowly(self) -> None:
        """Take nothing any more, and leave the sender little room."""
        self._is_slow = True
        self.connection.pipe_to(self).room_bytes = SLOW_READER_BYTES

    def read_on(self) -> None:
        """Take everything again."""
        if self._is_slow:
            self._is_slow = False
            pipe = self.connection.pipe_to(self)
            pipe.room_bytes = KERNEL_BUFFER_BYTES
            self.loop.call_soon(self._feed)
            self.connection.ends[1].has_room()

    def _feed(self) -> None:
        if self._is_slow:
            return
        self._is_told = False
        data = b"".join(self._received)
        self._received.clear()
        self.connection.pipe_to(self).taken(len(data))
        while data and not self._is_closed:
            room = memoryview(self._protocol.get_buffer(len(data)))
            size = min(len(room), len(data))
            room[:size] = data[:size]
            data = data[size:]
            self._protocol.buffer_updated(size)

    def finished(self) -> None:
        """Close, as asyncio does unless told otherwise."""
        self._end(None)

    def broken(self, error: OSError) -> None:
        """Close."""
        self._end(error)

    def _end(self, error: Exception | None) -> None:
        if not self._is_closed:
            self.loop.call_soon(self._lost, error)

    def _lost(self, error: Exception | None) -> None:
        if not self._is_closed:
            self._is_closed = True
            self.connection.closed_by(self)
            self._protocol.connection_lost(error)

    # The protocol's side

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes."""
        if not self._is_closed:
            self.connection.pipe_from(self).put(bytes(data))

    def writelines(self, list_of_data: Any) -> None:
        """Send several pieces at once."""
        self.write(b"".join(list_of_data))

    def abort(self) -> None:
        """Hang up."""
        self._end(None)

    close = abort

    def is_closing(self) -> bool:
        """Return whether the connection is over."""
        return self._is_closed
