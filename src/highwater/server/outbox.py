"""What is still to be sent to one peer: pieces of memory and ranges of files, in order, by one writer.

Small neighbours are joined into one `send`; file ranges leave by `sendfile`. One writer per socket is a rule: mixing a
transport's own buffer with `sendfile` reorders answers.
"""

from collections import deque

from highwater.server.errors import FileCutShort, FileUnreadable
from highwater.server.transport import Transport
from highwater.storage.disk_health import is_disk_failure
from highwater.storage.file_region import FileRegion

Piece = bytes | bytearray | memoryview | FileRegion

JOIN_LIMIT_BYTES = 64 * 1024
"""Pieces of memory are joined up to this size: below it a copy is cheaper than a system call."""

BYTES_PER_TURN = 256 * 1024
"""How much one connection may send before the others get their turn: a megabyte kept them waiting for 0.25 ms."""


class Outbox:
    """The pieces that wait to be sent, and how many bytes of memory they hold."""

    __slots__ = ("_head_is_warm", "_pieces", "cold_head", "held_bytes")

    def __init__(self) -> None:
        self._pieces: deque[Piece] = deque()
        self._head_is_warm = False
        self.cold_head: FileRegion | None = None
        """The file range that comes next, when sending it would make the loop wait for the disk."""
        self.held_bytes = 0

    def __bool__(self) -> bool:
        return bool(self._pieces)

    def __len__(self) -> int:
        return len(self._pieces)

    def put(self, piece: Piece) -> None:
        """Queue one piece behind the others."""
        self._pieces.append(piece)
        if not isinstance(piece, FileRegion):
            self.held_bytes += len(piece)

    def send(self, transport: Transport) -> int:
        """Send until everything is gone, the peer has no room, a file range is cold, or this turn is used up.

        Raises FileUnreadable when it is the disk that fails, and OSError when it is the peer.
        """
        pieces = self._pieces
        sent_bytes = 0
        try:
            while pieces and sent_bytes < BYTES_PER_TURN:
                head = pieces[0]
                if not isinstance(head, FileRegion):
                    sent_bytes += self._send_memory(transport)
                elif self._head_is_warm or self._is_in_memory(head):
                    self._head_is_warm = True
                    offered = min(head.length, BYTES_PER_TURN - sent_bytes)
                    sent = self._send_region(transport, head, offered)
                    sent_bytes += sent
                    if sent < offered:
                        break  # The peer has no room for more.
                else:
                    self.cold_head = head
                    break
        except (BlockingIOError, InterruptedError):
            pass
        return sent_bytes

    def waits_for_disk(self) -> bool:
        """Return whether a thread is reading what comes next.

        A question, not an attribute: a type checker would take the answer for true after `send` as well, and the
        compiled modules with it.
        """
        return self.cold_head is not None

    def head_is_warm(self) -> None:
        """The file range that was cold has been read: it can be sent."""
        self.cold_head = None
        self._head_is_warm = True

    @staticmethod
    def _is_in_memory(region: FileRegion) -> bool:
        try:
            return region.is_in_memory()
        except OSError as error:
            raise FileUnreadable(region.file, error) from error

    def _send_region(self, transport: Transport, region: FileRegion, length: int) -> int:
        try:
            sent = transport.send_file(region.file, region.position, length)
        except OSError as error:
            if is_disk_failure(error):  # no socket fails like this
                raise FileUnreadable(region.file, error) from error
            raise
        if sent == 0:
            raise FileCutShort(f"the file ends before byte {region.position + region.length}")
        if sent == region.length:
            self._pieces.popleft()
            self._head_is_warm = False
        else:
            self._pieces[0] = FileRegion(region.file, region.position + sent, region.length - sent)
        return sent

    def _send_memory(self, transport: Transport) -> int:
        data = self._joined_head()
        sent = transport.send(data, more=len(self._pieces) > 1)
        self.held_bytes -= sent
        if sent == len(data):
            self._pieces.popleft()
        else:
            self._pieces[0] = memoryview(data)[sent:]
        return sent

    def _joined_head(self) -> bytes | bytearray | memoryview:
        """Return the first piece, joined with the small pieces of memory behind it."""
        pieces = self._pieces
        first = pieces[0]
        assert not isinstance(first, FileRegion)
        if len(pieces) == 1 or isinstance(pieces[1], FileRegion) or len(first) >= JOIN_LIMIT_BYTES:
            return first
        joined: list[bytes | bytearray | memoryview] = []
        size_bytes = 0
        while pieces and size_bytes < JOIN_LIMIT_BYTES:
            piece = pieces[0]
            if isinstance(piece, FileRegion):
                break
            joined.append(piece)
            pieces.popleft()
            size_bytes += len(piece)
        data = b"".join(joined)
        pieces.appendleft(data)
        return data
