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

_SIZE_AND_CORRELATION: Final = Struct(">ii")
_NO_TAGGED_FIELDS: Final = b"\x00"


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
            return _SIZE_AND_CORRELATION.pack(body_bytes + 5, self.correlation_id) + _NO_TAGGED_FIELDS
        return _SIZE_AND_CORRELATION.pack(body_bytes + 4, self.correlation_id)

    def _put_with_records(self, parts: list[Part], outbox: Outbox) -> None:
        """Queue records where they lie, for `sendfile`; but join what is small and in memory into one piece."""
        head = self._head(sum(map(len, parts)))
        region_bytes = sum(part.length for part in parts if isinstance(part, FileRegion))
        if region_bytes < INLINE_REGION_BYTES:
            pieces = [_in_memory(part) if isinstance(part, FileRegion) else part for part in parts]
            if None not in pieces:
                outbox.put(b"".join([head, *pieces]))  # type: ignore[list-item]
                return
        outbox.put(head)
        for part in parts:
            assert isinstance(part, bytes | bytearray | memoryview | FileRegion)
            outbox.put(part)


def _in_memory(region: FileRegion) -> bytes | None:
    try:
        return region.read_without_waiting()
    except OSError as error:
        raise FileUnreadable(region.file, error) from error
