"""Whole frames out of a byte stream, without a copy for frames that arrive whole.

All connections receive into one shared buffer, because a frame is handled before the next connection is read: ten
thousand idle connections hold no buffers. Only the tail of a frame that has not fully arrived is kept by its
connection, and its buffer grows with the bytes that really came, never by the size that the frame claims.
"""

from struct import Struct
from typing import Final

from highwater.model.errors import MalformedFrame
from highwater.server.transport import Transport

SHARED_BUFFER_BYTES: Final = 512 * 1024
MIN_TAIL_BYTES: Final = 64 * 1024

FRAME_SIZE: Final = Struct(">i")


class SharedBuffer:
    """The buffer that every connection of one loop receives into."""

    __slots__ = ("view",)

    def __init__(self, size_bytes: int = SHARED_BUFFER_BYTES) -> None:
        self.view = memoryview(bytearray(size_bytes))


class Inbox:
    """One connection's incoming bytes. The frames it returns are valid until the next `receive`."""

    __slots__ = ("_filled", "_max_frame_bytes", "_shared", "_start", "_tail", "_view")

    def __init__(self, shared: SharedBuffer, *, max_frame_bytes: int) -> None:
        self._shared = shared
        self._max_frame_bytes = max_frame_bytes
        self._tail: memoryview | None = None
        self._filled = 0
        self._start = 0
        """Where the next frame begins."""
        self._view = shared.view

    @property
    def held_bytes(self) -> int:
        """Memory that this connection keeps for a frame that has not fully arrived."""
        return 0 if self._tail is None else len(self._tail)

    def receive(self, transport: Transport) -> int:
        """Read once from the peer; 0 means that it has finished."""
        tail = self._tail
        if tail is None:
            view, filled = self._shared.view, 0
        elif self._filled <= len(self._shared.view) // 8:
            # Copied back to the shared buffer, so that this read is a large one again.
            view, filled = self._shared.view, self._filled
            view[:filled] = tail[:filled]
        else:
            view, filled = tail, self._filled
        received = transport.receive_into(view[filled:])
        self._view, self._filled, self._start = view, filled + received, 0
        return received

    def next_frame(self) -> memoryview | None:
        """Return the next frame that has fully arrived, without its size; None after the last: the rest is kept."""
        start = self._start
        left = self._filled - start
        if left < 4:
            self._keep(start, 0)
            return None
        size: int
        (size,) = FRAME_SIZE.unpack_from(self._view, start)
        if size < 8 or size > self._max_frame_bytes:
            # Eight bytes are the key, version and correlation id that every request starts with.
            raise MalformedFrame(f"a frame of {size} bytes; the limit is {self._max_frame_bytes}")
        if left < size + 4:
            self._keep(start, size + 4)
            return None
        self._start = end = start + 4 + size
        return self._view[start + 4 : end]

    def _keep(self, start: int, wanted: int) -> None:
        """Hold what is left from `start` in a buffer of our own; `wanted` is the whole frame's size, if it is known."""
        view, left = self._view, self._filled - start
        if left == 0:
            self._tail = None
        elif view is not self._tail or start or left == len(view):
            capacity = max(left + 4, min(wanted, max(2 * left, MIN_TAIL_BYTES)))
            tail = memoryview(bytearray(capacity))
            tail[:left] = view[start : self._filled]
            self._tail = tail
        self._filled, self._start = left, 0
