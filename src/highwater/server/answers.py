"""Answers leave in the order of their requests, whatever order they become ready in."""

from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol

from highwater.protocol.schema import Message, Part
from highwater.server.api_table import Route
from highwater.server.errors import FileUnreadable
from highwater.server.outbox import Outbox
from highwater.storage.file_region import FileRegion

INLINE_REGION_BYTES: Final = 64 * 1024
"""File ranges below this in total are read and sent with the head: one send beats send plus sendfile (measured)."""

_HEAD: Final = Struct(">ii")
"""The size of what follows, and the correlation id."""
_FLEXIBLE_HEAD: Final = Struct(">iix")
"""The same, and no tagged fields."""


class Deferred(Protocol):
    """An answer that may have to wait: for replicas, for data, for a moment."""

    def start(self, answer: Callable[[Message], None]) -> None:
        """Begin, once every append of this turn is in the log; call `answer` exactly once, now or later."""

    def cancel(self) -> None:
        """Nobody waits for the answer any more."""


class Answer:
    """The place in the order that one request holds until its response is there."""

    __slots__ = ("_route", "correlation_id", "received_at", "response")

    def __init__(self, route: Route, correlation_id: int, *, received_at: float) -> None:
        self._route = route
        self.correlation_id = correlation_id
        self.received_at = received_at
        self.response: Message | None = None

    @property
    def api_key(self) -> int:
        """The API that was asked."""
        return self._route.api.key

    def write_to(self, outbox: Outbox) -> None:
        """Queue this answer's frame."""
        assert self.response is not None
        parts: list[Part] = []
        self._route.encode(self.response, parts)
        if self._route.may_carry_records:
            self._put_with_records(parts, outbox)
        else:
            body = parts[0] if len(parts) == 1 else b"".join(parts)  # type: ignore[arg-type]
            assert isinstance(body, bytes)
            outbox.put(self._head(len(body)) + body)

    def _head(self, body_bytes: int) -> bytes:
        if self._route.flexible_response:
            return _FLEXIBLE_HEAD.pack(body_bytes + 5, self.correlation_id)
        return _HEAD.pack(body_bytes + 4, self.correlation_id)

    def _put_with_records(self, parts: list[Part], outbox: Outbox) -> None:
        """Queue records where they lie, for `sendfile`; but join what is small and in memory into one piece."""
        body_bytes = region_bytes = 0
        for part in parts:
            body_bytes += len(part)
            if isinstance(part, FileRegion):
                region_bytes += part.length
        head = self._head(body_bytes)
        joined = _joined(head, parts) if region_bytes < INLINE_REGION_BYTES else None
        if joined is not None:
            outbox.put(joined)
            return
        outbox.put(head)
        for part in parts:
            assert isinstance(part, bytes | bytearray | memoryview | FileRegion)
            outbox.put(part)


def _joined(head: bytes, parts: list[Part]) -> bytes | None:
    """Return everything in one piece, or None if a part of it would have to be read from the disk."""
    pieces: list[Part] = [head]
    for part in parts:
        if not isinstance(part, FileRegion):
            pieces.append(part)
            continue
        try:
            content = part.read_without_waiting()
        except OSError as error:
            raise FileUnreadable(part.file, error) from error
        if content is None:
            return None
        pieces.append(content)
    return b"".join(pieces)  # type: ignore[arg-type]
