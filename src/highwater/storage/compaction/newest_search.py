"""The first pass: which of the records that have come in are the newest of their keys.

What has come in is looked at from its end to its beginning, so that the first record of a key is the one that stays.
How much fits into the memory is not known beforehand, because nobody knows how many keys there are. So all of it is
tried first and, where that is too much, the first half. What is left is for the next round.
"""

from typing import Final, NamedTuple

from highwater.protocol.records.record import read_payload
from highwater.protocol.records.spans import record_keys
from highwater.storage.compaction.aborted_records import AbortedRecords
from highwater.storage.compaction.newest_records import BYTES_PER_BATCH, BYTES_PER_KEY, NewestRecords
from highwater.storage.compaction.plan import CompactionPlan, SealedSegment
from highwater.storage.compaction.segment_reader import SegmentReader

_PORTION_BYTES: Final = 64 * 1024


class _Portion(NamedTuple):
    """What is read at once, on the way back."""

    segment: SealedSegment
    start: int
    end: int
    end_offset: int


class NewestSearch:
    """Looks through the dirty segments of a plan."""

    __slots__ = ("_aborted", "_aborted_batches", "_plan", "_reader")

    def __init__(self, plan: CompactionPlan, reader: SegmentReader, aborted: AbortedRecords) -> None:
        self._plan = plan
        self._reader = reader
        self._aborted = aborted
        self._aborted_batches: set[int] = set()
        """Base offsets of batches whose records nobody reads."""

    def find(self) -> tuple[NewestRecords, int]:
        """Return what was found, and up to which offset was looked."""
        portions = self._portions()
        while portions:
            newest = self._newest_of(portions)
            if newest is not None:
                return newest, portions[-1].end_offset
            portions = portions[: len(portions) // 2]
        return NewestRecords(0), self._plan.segments[-1].end_offset

    def _portions(self) -> list[_Portion]:
        """Divide what has come in, or as much of it as can be told apart in half of the memory."""
        free_bytes = self._plan.memory_bytes // 2
        first_dirty, most_records = self._plan.first_dirty_offset, self._plan.memory_bytes // BYTES_PER_KEY
        found: list[_Portion] = []
        for segment in self._plan.dirty_segments:
            start = position = records = 0
            for end, header, batch in self._reader.batches(segment, 0, segment.sizes.log):
                if header.is_control:
                    self._aborted.marks_nothing(header, batch)
                elif self._aborted.holds(header):
                    self._aborted_batches.add(header.base_offset)
                if header.last_offset < first_dirty:
                    start = position = end
                    continue
                position = end
                records += header.record_count
                free_bytes -= BYTES_PER_BATCH + header.record_count
                if position - start >= _PORTION_BYTES or records >= most_records or free_bytes < 0:
                    found.append(_Portion(segment, start, position, header.last_offset + 1))
                    start, records = position, 0
                    if free_bytes < 0:
                        return found
            # What follows the last batch up to the next segment is nothing, or was compacted away.
            found.append(_Portion(segment, start, position, segment.end_offset))
        return found

    def _newest_of(self, portions: list[_Portion]) -> NewestRecords | None:
        """Return the newest records of these portions, or None without memory for them. One portion always fits."""
        newest = NewestRecords(self._plan.memory_bytes)
        for portion in reversed(portions):
            batches = list(self._reader.batches(portion.segment, portion.start, portion.end))
            for _, header, batch in reversed(batches):
                if header.is_control or header.record_count == 0 or header.base_offset in self._aborted_batches:
                    continue
                self._reader.make_way()
                keys = record_keys(read_payload(batch, header), header.record_count)
                if not newest.take(header.base_offset, keys) and len(portions) > 1:
                    return None
        return newest
