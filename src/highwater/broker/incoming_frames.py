"""Answers of another broker as they arrive: what is large is received where it stays.

A follower's records go from the socket into the frame that they are appended from, and are not copied in between.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

from highwater.model.errors import MalformedFrame

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_FRAME_BYTES: Final = 256 * 1024 * 1024
SHARED_BYTES: Final = 64 * 1024
"""What is received at once while it is not known how much will come."""
_SIZE: Final = Struct(">i")


class IncomingFrames:
    """Cuts what arrives on one connection into frames, each of which is its receiver's to keep."""

    __slots__ = ("_filled", "_large", "_shared")

    def __init__(self) -> None:
        self._shared = memoryview(bytearray(SHARED_BYTES))
        self._large: memoryview | None = None
        """A frame that has begun and does not fit."""
        self._filled = 0
        """How much of the large frame, or of the shared buffer, has arrived."""

    def room(self) -> memoryview:
        """Return where the next bytes belong; never nothing."""
        return (self._shared if self._large is None else self._large)[self._filled :]

    def received(self, size_bytes: int) -> Iterator[memoryview]:
        """Take note of what arrived in `room`, and return the frames that are whole now. Raises MalformedFrame."""
        self._filled += size_bytes
        if self._large is None:
            yield from self._cut()
        elif self._filled == len(self._large):
            frame, self._large, self._filled = self._large, None, 0
            yield frame

    def _cut(self) -> Iterator[memoryview]:
        shared, start = self._shared, 0
        while self._filled - start >= _SIZE.size:
            (size,) = _SIZE.unpack_from(shared, start)
            if not _SIZE.size <= size <= MAX_FRAME_BYTES:
                raise MalformedFrame(f"a frame of {size} bytes")
            begin, end = start + _SIZE.size, start + _SIZE.size + size
            if end > self._filled:
                if size + _SIZE.size > SHARED_BYTES:
                    self._begin_large(size, begin)
                    return
                break
            yield memoryview(bytes(shared[begin:end]))
            start = end
        rest = self._filled - start
        shared[:rest] = bytes(shared[start : self._filled])
        self._filled = rest

    def _begin_large(self, size: int, begin: int) -> None:
        """Go on in a buffer of the frame's own, with the part of it that is here."""
        self._large = memoryview(bytearray(size))
        here = self._filled - begin
        self._large[:here] = self._shared[begin : self._filled]
        self._filled = here
