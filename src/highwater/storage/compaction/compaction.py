"""One round of compaction: find the newest record of each key, then write what stays, portion by portion.

It reads the segments of a plan and writes new ones into a folder of its own; the log is not touched. Whoever owns the
log puts each portion in place of the segments it was made from (`swap.py`). So this may run in another process.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from highwater.protocol.records.batch import HEADER_BYTES, Buffer, read_header
from highwater.storage.compaction import swap
from highwater.storage.compaction.aborted_records import AbortedRecords
from highwater.storage.compaction.batch_filter import BatchFilter
from highwater.storage.compaction.newest_search import NewestSearch
from highwater.storage.compaction.plan import CompactedGroup, CompactionPlan, SealedSegment, grouped
from highwater.storage.compaction.segment_reader import Pace, SegmentReader
from highwater.storage.files import Files
from highwater.storage.segment import BatchSummary, Segment
from highwater.storage.txn_index import TransactionIndex

_WRITE_BYTES: Final = 64 * 1024
"""A megabyte at once kept a processor from the broker for 2 ms: many kernels do not stop in the midst of a write."""


class Compaction:
    """Carries out a plan. Raises KafkaError rather than to give a damaged batch a good checksum."""

    def __init__(self, files: Files, plan: CompactionPlan, pace: Pace) -> None:
        self._files = files
        self._plan = plan
        self._pace = pace
        self._reader = SegmentReader(files, plan.folder, pace)
        newest, self.end_offset = NewestSearch(plan, self._reader, self._aborted_records(plan.dirty_segments)).find()
        """Below, all is compacted when every group is in place: the first dirty offset of the next round."""
        self._aborted = self._aborted_records(plan.segments)
        self._filter = BatchFilter(plan, newest, self._aborted, end_offset=self.end_offset)

    @property
    def records_read(self) -> int:
        """How many records were looked at by `groups`."""
        return self._filter.records_read

    @property
    def records_kept(self) -> int:
        """How many of them stay."""
        return self._filter.records_kept

    def _aborted_records(self, segments: Iterable[SealedSegment]) -> AbortedRecords:
        aborted = AbortedRecords()
        aborted.expect(self._plan.aborted_later)
        for segment in segments:
            size = segment.sizes.txn_index
            index = TransactionIndex(self._files, self._plan.folder, segment.base_offset, size=size)
            index.check()
            aborted.expect(index)
        return aborted

    def groups(self) -> Iterator[CompactedGroup]:
        """Write the new segments, one after the other. Each must be put in place, or not, before the next is asked for.

        A segment of which everything stays is left as it is.
        """
        swap.remove_written(self._files, self._plan.folder)
        self._files.make_folder(self._plan.folder / swap.FOLDER)
        affected = [segment for segment in self._plan.segments if segment.base_offset < self.end_offset]
        for group in grouped(affected, self._plan.config):
            written = self._write(group)
            if written is not None:
                yield written
        swap.remove_written(self._files, self._plan.folder)

    def _write(self, group: tuple[SealedSegment, ...]) -> CompactedGroup | None:
        """Write one segment of what stays of a group; None when that is all of it."""
        size = sum(member.sizes.log for member in group)
        config = replace(
            self._plan.config,
            segment_index_bytes=max(self._plan.config.segment_index_bytes, 12 * (size // HEADER_BYTES + 2)),
        )
        folder = self._plan.folder / swap.FOLDER
        segment = Segment(self._files, folder, group[0].base_offset, config, created_ms=self._plan.now_ms)
        segment.create()
        writer = _Writer(segment, self._pace)
        is_changed = len(group) > 1
        for member in group:
            size = member.sizes.log
            for end, header, batch in self._reader.batches(member, 0, size):
                kept = self._filter.keep(header, batch, is_last=end == size and member is group[-1])
                is_changed = is_changed or kept is not batch
                if kept is not None:
                    writer.write(kept)
        writer.flush()
        for aborted in self._aborted.kept:
            segment.txn_index.append(aborted)
        self._aborted.kept.clear()
        if not is_changed:
            segment.remove()
            return None
        segment.close()
        for path in (segment.path, *segment.index_paths()):
            if self._files.exists(path):
                self._files.open(path).sync()
        return CompactedGroup(segment.base_offset, group, segment.sizes)


class _Writer:
    """Appends batches to a segment, many at a time."""

    def __init__(self, segment: Segment, pace: Pace) -> None:
        self._segment = segment
        self._pace = pace
        self._buffers: list[Buffer] = []
        self._batches: list[BatchSummary] = []
        self._bytes = 0

    def write(self, batch: Buffer) -> None:
        header = read_header(batch)
        self._buffers.append(batch)
        self._batches.append((header.last_offset, header.size, header.max_timestamp))
        self._bytes += header.size
        if self._bytes >= _WRITE_BYTES:
            self.flush()

    def flush(self) -> None:
        if self._batches:
            self._segment.append(self._buffers, self._batches, self._bytes)
            self._pace(self._bytes)
        self._buffers, self._batches, self._bytes = [], [], 0
