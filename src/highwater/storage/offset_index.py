"""The offset index (`.index`): where in the segment is the batch that holds an offset?

Entries of eight bytes: the last offset of a batch relative to the base offset of the segment, and the file position of
that batch. Sparse: one per `index.interval.bytes` of log. As in Apache Kafka, so that its tools read ours.
"""

import struct
from pathlib import Path
from typing import Final, NamedTuple

from highwater.storage.files import File, Files, MutableBytes
from highwater.storage.index_file import IndexFile, used_bytes

_ENTRY: Final = struct.Struct(">II")
_RELATIVE: Final = struct.Struct(">I")


class OffsetPosition(NamedTuple):
    """A batch that ends with `offset` begins at `position`."""

    offset: int
    position: int


class OffsetIndex(IndexFile):
    """The offset index of one segment."""

    suffix = ".index"
    entry_bytes = 8
    __slots__ = ("_last_found",)

    def __init__(self, files: Files, folder: Path, base_offset: int, *, size: int, max_bytes: int) -> None:
        super().__init__(files, folder, base_offset, size=size, max_bytes=max_bytes)
        self._last_found: tuple[int, int, int] | None = None
        """The relative offsets of an entry and of the one after it, and the position: who reads on asks nearby."""

    def append(self, offset: int, position: int) -> None:
        """Add an entry above all others."""
        end = self._end
        if end >= self._writable_end:
            self._make_room()
        _ENTRY.pack_into(self._memory, end, offset - self.base_offset, position)
        self._end = end + 8

    def entry(self, number: int) -> OffsetPosition:
        """Return an entry by its place."""
        assert 0 <= number < self.entry_count
        relative: int
        position: int
        relative, position = _ENTRY.unpack_from(self._touch(), number * 8)
        return OffsetPosition(self.base_offset + relative, position)

    def last_entry(self) -> OffsetPosition:
        """Return the last entry, or the start of the segment when there is none."""
        return self.entry(self.entry_count - 1) if self._end else OffsetPosition(self.base_offset, 0)

    def lookup(self, offset: int) -> tuple[int, int]:
        """Return offset and position of the largest entry at or below `offset`, or the start of the segment."""
        base, relative = self.base_offset, offset - self.base_offset
        found = self._last_found
        if found is not None and found[0] <= relative < found[1]:
            return base + found[0], found[2]
        number = self._count_at_or_below(offset)
        if not number:
            return base, 0
        memory = self._touch()
        indexed: int
        position: int
        indexed, position = _ENTRY.unpack_from(memory, number * 8 - 8)
        if number * 8 < self._end:
            self._last_found = indexed, _relative_at(memory, number * 8), position
        return base + indexed, position

    def _count_at_or_below(self, offset: int) -> int:
        """Return how many entries have an offset of at most `offset`."""
        memory = self._touch()
        relative = offset - self.base_offset
        low, high = 0, self._end // 8
        if not high:
            return 0
        last = _relative_at(memory, high * 8 - 8)
        if last <= relative:
            return high  # Readers are mostly near the end.
        # Offsets grow nearly evenly with the entries: look first where an even growth would have it.
        guess = relative * high // last if relative > 0 else 0
        if _relative_at(memory, guess * 8) > relative:
            high = guess
        elif _relative_at(memory, guess * 8 + 8) > relative:
            return guess + 1
        else:
            low = guess + 2
        while low < high:
            middle = (low + high) // 2
            if _relative_at(memory, middle * 8) <= relative:
                low = middle + 1
            else:
                high = middle
        return low

    def cut(self, offset: int) -> None:
        """Forget the entries at or above `offset`."""
        self._last_found = None
        self._keep(self._count_at_or_below(offset - 1))

    def reset(self, at_least_entries: int) -> None:
        """Forget every entry, to build the index anew with room for a number of them."""
        self._last_found = None
        super().reset(at_least_entries)

    def is_sane(self, log_bytes: int) -> bool:
        """Say whether the last entry can be true of a segment of this size; cheap, not a proof."""
        if not self._end:
            return True
        offset, position = self.last_entry()
        return offset >= self.base_offset and position < log_bytes and (self._end == 8 or position > 0)


def _relative_at(memory: MutableBytes, position: int) -> int:
    relative: int
    (relative,) = _RELATIVE.unpack_from(memory, position)
    return relative


def read_entries(file: File, base_offset: int) -> list[OffsetPosition]:
    """Return the entries of a whole file, without the zeros after them in one that is still being written."""
    entries = used_bytes(file, OffsetIndex.entry_bytes)
    return [OffsetPosition(base_offset + relative, position) for relative, position in _ENTRY.iter_unpack(entries)]
