"""The time index (`.timeindex`): from which offset on can a record of a time be found?

Entries of twelve bytes: a timestamp, and the relative offset of the batch that first reached it: no record before that
batch is younger. Both only ever grow. As in Apache Kafka, so that its tools read ours.
"""

import struct
from typing import Final, NamedTuple

from highwater.storage.files import File
from highwater.storage.index_file import IndexFile, used_bytes

_ENTRY: Final = struct.Struct(">qI")
_TIMESTAMP: Final = struct.Struct(">q")

NO_TIMESTAMP: Final = -1


class TimestampOffset(NamedTuple):
    """The largest timestamp up to a batch, and the last offset of the batch that has it."""

    timestamp: int
    offset: int


class TimeIndex(IndexFile):
    """The time index of one segment."""

    suffix = ".timeindex"
    entry_bytes = 12
    __slots__ = ()

    def last_entry(self) -> TimestampOffset:
        """Return the last entry, or "no time yet" at the base offset."""
        if not self._end:
            return TimestampOffset(NO_TIMESTAMP, self.base_offset)
        return self.entry(self.entry_count - 1)

    def entry(self, number: int) -> TimestampOffset:
        """Return an entry by its place."""
        assert 0 <= number < self.entry_count
        timestamp, relative = _ENTRY.unpack_from(self._touch(), number * 12)
        return TimestampOffset(timestamp, self.base_offset + relative)

    def append(self, timestamp: int, offset: int) -> None:
        """Add an entry, unless time has not moved on since the last one."""
        end = self._end
        last = _TIMESTAMP.unpack_from(self._touch(), end - 12)[0] if end else NO_TIMESTAMP
        if timestamp <= last:
            return
        if end >= self._writable_end:
            self._make_room()
        _ENTRY.pack_into(self._memory, end, timestamp, offset - self.base_offset)
        self._end = end + 12

    def lookup(self, timestamp: int) -> TimestampOffset:
        """Return the largest entry at or below `timestamp`, or "no time yet" at the base offset."""
        memory = self._touch()
        low, high = 0, self._end // 12
        while low < high:
            middle = (low + high) // 2
            if _TIMESTAMP.unpack_from(memory, middle * 12)[0] <= timestamp:
                low = middle + 1
            else:
                high = middle
        return self.entry(low - 1) if low else TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def cut(self, offset: int) -> None:
        """Forget the entries at or above `offset`."""
        count = self.entry_count
        while count and self.entry(count - 1).offset >= offset:
            count -= 1
        self._keep(count)

    def is_sane(self) -> bool:
        """Say whether the last entry can be true; cheap, not a proof."""
        if self.entry_count < 2:
            return True
        first, last = self.entry(0), self.entry(self.entry_count - 1)
        return first.timestamp < last.timestamp and first.offset < last.offset


def read_entries(file: File, base_offset: int) -> list[TimestampOffset]:
    """Return the entries of a whole file, without the zeros after them in one that is still being written."""
    entries = used_bytes(file, TimeIndex.entry_bytes)
    return [TimestampOffset(timestamp, base_offset + relative) for timestamp, relative in _ENTRY.iter_unpack(entries)]
