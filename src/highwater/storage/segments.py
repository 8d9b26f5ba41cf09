"""The segments of one log in order, and how a reader finds its way through them."""

from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Final

from highwater.protocol.records.batch import BatchHeader
from highwater.storage.batch_scan import Located
from highwater.storage.file_region import FileRegion
from highwater.storage.files import Files
from highwater.storage.log_config import LogConfig
from highwater.storage.segment import Segment

_REMEMBERED_ENDS: Final = 32
_BASE_OFFSET: Final = attrgetter("base_offset")


class Segments:
    """At least one segment; the last one is the active one, to which batches are appended."""

    __slots__ = ("_files", "_folder", "_recent_ends", "_segments", "active")

    def __init__(self, files: Files, folder: Path, segments: list[Segment]) -> None:
        assert segments, "a log has at least its active segment"
        self._files = files
        self._folder = folder
        self._segments = segments
        self.active = segments[-1]
        self._recent_ends: dict[int, int] = {}
        """Where in the active segment a recent write ended, by the offset that comes next: readers near the end ask
        for such an offset, and a high watermark nearly always is one."""

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __getitem__(self, number: int) -> Segment:
        return self._segments[number]

    def since(self, offset: int) -> list[Segment]:
        """Return the segment that may hold `offset`, and all after it."""
        return self._segments[max(0, bisect_right(self._segments, offset, key=_BASE_OFFSET) - 1) :]

    # Reading

    def read(
        self, offset: int, up_to: int, log_end_offset: int, *, max_bytes: int, at_least_one: bool, may_wait: bool
    ) -> FileRegion | None:
        """Return the batches from the one that holds `offset` to the last one below `up_to`, of one segment."""
        segment = self.active
        position = self._recent_ends.get(offset)
        located: Located | None = None
        if position is None:
            found = self._locate(offset, may_wait=may_wait)
            if found is None:
                return None
            segment, located = found
            position = located.position
        available = self._end_position(segment, up_to, log_end_offset) - position
        if available <= 0:
            return None
        if available > max_bytes:
            first_bytes = segment.header_at(position).size if located is None else located.size
            if first_bytes > max_bytes and not at_least_one:
                return None
            available = max(first_bytes, max_bytes)
        content = None if located is None else located.content(available)
        return FileRegion(segment.file, position, available, content)

    def _locate(self, offset: int, *, may_wait: bool) -> tuple[Segment, Located] | None:
        """Return the segment of the first batch that ends at or after `offset`, and where the batch is in it."""
        if offset >= self.active.base_offset:
            located = self.active.locate(offset, may_wait=may_wait)
            return None if located is None else (self.active, located)
        for segment in self.since(offset):
            located = segment.locate(offset, may_wait=may_wait)
            if located is not None:
                return segment, located
        return None

    def find(self, offset: int) -> tuple[Segment, int, BatchHeader] | None:
        """Return the first batch that ends at or after `offset`, and where it is; compaction may have left gaps."""
        for segment in (self.active,) if offset >= self.active.base_offset else self.since(offset):
            found = segment.find(offset)
            if found is not None:
                return segment, *found
        return None

    def _end_position(self, segment: Segment, up_to: int, log_end_offset: int) -> int:
        """Return where the batches of a segment end that are below `up_to`."""
        if segment is self.active:
            if up_to >= log_end_offset:
                return segment.size
            position = self._recent_ends.get(up_to)
            if position is not None:
                return position
        elif up_to >= self._after(segment).base_offset:
            return segment.size
        found = segment.locate(up_to)
        return segment.size if found is None else found.position

    def _after(self, segment: Segment) -> Segment:
        """Return the segment after one that is not the active one."""
        return self._segments[bisect_right(self._segments, segment.base_offset, key=_BASE_OFFSET)]

    # Changing

    def remember_end(self, offset: int) -> None:
        """Note that everything below `offset` has been written."""
        ends = self._recent_ends
        ends[offset] = self.active.size
        if len(ends) > _REMEMBERED_ENDS:
            del ends[next(iter(ends))]

    def roll(self, base_offset: int, config: LogConfig, now_ms: int) -> Segment:
        """Make a new active segment that begins at `base_offset`."""
        self.active.seal()
        segment = Segment(self._files, self._folder, base_offset, config, created_ms=now_ms)
        segment.create()
        self._segments.append(segment)
        self.active = segment
        self._recent_ends.clear()
        return segment

    def remove_after(self, segment: Segment) -> None:
        """Remove the segments after `segment`, the newest first: a crash on the way leaves no gap."""
        self._recent_ends.clear()
        self.active = segment
        while self._segments[-1] is not segment:
            self._segments[-1].remove()
            del self._segments[-1]

    def begin_at(self, offset: int, config: LogConfig, now_ms: int) -> Segment:
        """Return the segment in which the log is to begin anew at `offset`, made if there is none; see `keep_only`."""
        for segment in self._segments:
            if segment.base_offset == offset:
                return segment
        segment = Segment(self._files, self._folder, offset, config, created_ms=now_ms)
        segment.create()
        return segment

    def keep_only(self, begun: Segment) -> None:
        """Remove every record, and every segment but this one.

        Others go from the far end, those after it first: a crash on the way leaves a log that ends where it did, or
        begins anew, and never one without a segment, which would not know where it was.
        """
        self._recent_ends.clear()
        for segment in reversed(self._segments):
            if segment.base_offset > begun.base_offset:
                segment.remove()
        if begun.size:
            begun.cut_at(0, begun.base_offset)
        for segment in self._segments:
            if segment.base_offset < begun.base_offset:
                segment.remove()
        self._segments[:] = [begun]
        self.active = begun

    def cut(self, offset: int) -> int:
        """Remove the batch that holds `offset` and all after it; return where the log ends now."""
        segment = self.since(offset)[0]
        self.remove_after(segment)
        found = segment.find(offset)
        if found is None:
            return offset
        position, header = found
        end = min(offset, header.base_offset)
        segment.cut_at(position, end)
        return end

    def detach_oldest(self) -> Segment:
        """Take the oldest segment out, for deletion."""
        assert len(self._segments) > 1, "the active segment stays"
        return self._segments.pop(0)

    def replace(self, old: list[Segment], new: Segment) -> None:
        """Put one segment in the place of some that follow one another, of which none is the active one."""
        number = self._segments.index(old[0])
        assert self._segments[number : number + len(old)] == old
        self._segments[number : number + len(old)] = [new]
