"""Walk through the batches of a segment by their headers, reading the file in chunks."""

from collections.abc import Iterator
from functools import partial
from struct import Struct
from typing import Final

from highwater.protocol.records.batch import HEADER, HEADER_BYTES, LENGTH_PREFIX_BYTES, MAGIC, BatchHeader
from highwater.storage.errors import DamagedSegment, NotInMemory
from highwater.storage.files import File

LOOKUP_CHUNK_BYTES: Final = 8 * 1024
"""Two index intervals: one read usually finds what the index pointed near to."""

SCAN_CHUNK_BYTES: Final = 64 * 1024
"""Many kernels do not stop in the midst of a read: who wants the processor has to wait for all of it."""


_SPAN: Final = Struct(">qi4xb6xi")
"""Of a batch header: base offset, length, magic, last offset delta."""


def headers(file: File, start: int, end: int, *, chunk_bytes: int) -> Iterator[tuple[int, BatchHeader]]:
    """Yield position and header of every batch from `start` to `end`, both between batches.

    Raises DamagedSegment where no batch begins or the last one is cut short; checksums are not looked at.
    """
    position = chunk_start = start
    chunk = b""
    while position < end:
        within = position - chunk_start
        if within + HEADER_BYTES > len(chunk):
            chunk_start, within = position, 0
            chunk = file.read(position, min(chunk_bytes, end - position))
        header = _header(chunk, within, position, end)
        yield position, header
        position += header.batch_length + LENGTH_PREFIX_BYTES


class Located:
    """Where a batch is, with what was read of the file on the way to it."""

    __slots__ = ("_chunk", "_within", "first_last_offset", "position", "size")

    def __init__(self, position: int, size: int, first_last_offset: int, chunk: bytes, within: int) -> None:
        self.position = position
        self.size = size
        self.first_last_offset = first_last_offset
        """The last offset of the batch at which the walk began, which an index entry can be checked by."""
        self._chunk = chunk
        self._within = within

    def content(self, length: int) -> bytes | None:
        """Return `length` bytes from the beginning of the batch on, if they have been read."""
        end = self._within + length
        return self._chunk[self._within : end] if end <= len(self._chunk) else None


def locate(file: File, start: int, end: int, offset: int, *, may_wait: bool = True) -> Located | None:
    """Return the first batch from `start` on that ends at or after `offset`, or None. Raises DamagedSegment.

    The walk of `headers`, without its objects: a reader of small batches passes a dozen of them in every fetch.
    Who may not wait for the disk gets NotInMemory where that would be needed.
    """
    position = start
    first_last_offset = -1
    base_offset: int
    length: int
    magic: int
    last_offset_delta: int
    unpack = _SPAN.unpack_from
    while position < end:
        length = min(LOOKUP_CHUNK_BYTES, end - position)
        chunk = file.read(position, length) if may_wait else file.read_without_waiting(position, length)
        if chunk is None:
            raise NotInMemory(partial(file.read, position, length))
        within, last_start = 0, len(chunk) - HEADER_BYTES
        if last_start < 0:
            raise DamagedSegment(position, f"{len(chunk)} bytes are too few for a batch")
        while within <= last_start:
            base_offset, length, magic, last_offset_delta = unpack(chunk, within)
            size = length + LENGTH_PREFIX_BYTES
            if magic != MAGIC or size < HEADER_BYTES or last_offset_delta < 0 or position + within + size > end:
                raise DamagedSegment(position + within, "no whole record batch begins here")
            last_offset = base_offset + last_offset_delta
            if first_last_offset < 0:
                first_last_offset = last_offset
            if last_offset >= offset:
                return Located(position + within, size, first_last_offset, chunk, within)
            within += size
        position += within
    return None


def batches(file: File, start: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield position, header and all bytes of every batch from `start` to `end`. Raises as `headers` does."""
    position = chunk_start = start
    chunk = memoryview(b"")
    available = 0
    while position < end:
        within = position - chunk_start
        if within + HEADER_BYTES > available:
            chunk_start, within = position, 0
            chunk = memoryview(file.read(position, min(SCAN_CHUNK_BYTES, end - position)))
            available = len(chunk)
        header = _header(chunk, within, position, end)
        size = header.batch_length + LENGTH_PREFIX_BYTES
        if within + size > available:
            chunk_start, within = position, 0
            chunk = memoryview(file.read(position, min(max(SCAN_CHUNK_BYTES, size), end - position)))
            available = len(chunk)
            if available < size:
                raise DamagedSegment(position, "the file is shorter than it was")
        yield position, header, chunk[within : within + size]
        position += size


def _header(chunk: bytes | memoryview, within: int, position: int, end: int) -> BatchHeader:
    """Return the header at `within` in a chunk, which is at `position` in the file, if a whole batch can be there."""
    if within + HEADER_BYTES > len(chunk):
        raise DamagedSegment(position, f"{len(chunk) - within} bytes are too few for a batch")
    header = tuple.__new__(BatchHeader, HEADER.unpack_from(chunk, within))
    size = header.batch_length + LENGTH_PREFIX_BYTES
    if header.magic != MAGIC or size < HEADER_BYTES or header.last_offset_delta < 0:
        raise DamagedSegment(position, "no record batch begins here")
    if position + size > end:
        raise DamagedSegment(position, f"a batch of {size} bytes is cut short after {end - position}")
    return header
