"""One segment of a log: a run of batches in a `.log` file, with the indexes that find things in it."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from highwater.protocol.records.batch import HEADER_BYTES, LENGTH_PREFIX_BYTES, BatchHeader
from highwater.storage import batch_scan
from highwater.storage.errors import DamagedSegment, NotInMemory
from highwater.storage.files import BytesLike, File, Files, rename_if_there, write_all
from highwater.storage.log_config import LogConfig
from highwater.storage.offset_index import OffsetIndex
from highwater.storage.time_index import NO_TIMESTAMP, TimeIndex, TimestampOffset
from highwater.storage.txn_index import TransactionIndex

LOG_SUFFIX: Final = ".log"
DELETED_SUFFIX: Final = ".deleted"
MAX_RELATIVE_OFFSET: Final = 2**31 - 1

_NOT_READ: Final = -2
_SURELY_IN_MEMORY_BYTES: Final = 8 * 1024 * 1024
"""So much of what was written last is in the page cache, which need not be asked."""


BatchSummary: TypeAlias = tuple[int, int, int]
"""Last offset, size and largest timestamp of a batch: what the indexes need to know when it is appended."""


class SegmentSizes(NamedTuple):
    """The sizes of the files of a segment, as a listing of the folder shows them."""

    log: int = 0
    offset_index: int = 0
    time_index: int = 0
    txn_index: int = 0


_EMPTY: Final = SegmentSizes()


class Segment:
    """The batches from `base_offset` on. Files are opened and mapped when they are first used."""

    __slots__ = (
        "_bytes_since_index_entry",
        "_file",
        "_files",
        "_first_timestamp",
        "_folder",
        "_free_entries",
        "_index_interval_bytes",
        "_is_changed",
        "_is_deleted",
        "_largest",
        "base_offset",
        "created_ms",
        "offset_index",
        "size",
        "time_index",
        "txn_index",
    )

    def __init__(
        self,
        files: Files,
        folder: Path,
        base_offset: int,
        config: LogConfig,
        *,
        created_ms: int,
        sizes: SegmentSizes = _EMPTY,
    ) -> None:
        self._files = files
        self._folder = folder
        self._file: File | None = None
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.size = sizes.log
        index_bytes = config.segment_index_bytes
        self.offset_index = OffsetIndex(files, folder, base_offset, size=sizes.offset_index, max_bytes=index_bytes)
        self.time_index = TimeIndex(files, folder, base_offset, size=sizes.time_index, max_bytes=index_bytes)
        self.txn_index = TransactionIndex(files, folder, base_offset, size=sizes.txn_index)
        self._index_interval_bytes = config.index_interval_bytes
        self._bytes_since_index_entry = 0
        self._is_changed = False
        self._is_deleted = False
        self._first_timestamp = NO_TIMESTAMP if not sizes.log else _NOT_READ
        self._count_free_entries()
        self._largest: TimestampOffset | None = None if sizes.log else TimestampOffset(NO_TIMESTAMP, base_offset)

    def __repr__(self) -> str:
        return f"Segment(base_offset={self.base_offset}, size={self.size})"

    @property
    def path(self) -> Path:
        """Where the batches are."""
        return self._folder / f"{self.base_offset:020d}{LOG_SUFFIX}"

    @property
    def sizes(self) -> SegmentSizes:
        """The sizes of its files when it is sealed."""
        return SegmentSizes(
            self.size,
            self.offset_index.entry_count * self.offset_index.entry_bytes,
            self.time_index.entry_count * self.time_index.entry_bytes,
            self.txn_index.size,
        )

    @property
    def file(self) -> File:
        """The file of the batches, opened."""
        if self._file is None:
            self._file = self._files.open(self.path)
        return self._file

    def is_in(self, file: File) -> bool:
        """Return whether the batches are in this very file."""
        return self._file is file

    # Writing

    def create(self) -> None:
        """Make the file, so that the base offset is remembered even when nothing is ever appended."""
        self._files.create(self.path)

    def append(self, buffers: Sequence[BytesLike], batches: Sequence[BatchSummary], total_bytes: int) -> None:
        """Write batches in one go, then index them. After an OSError the caller cuts the segment back."""
        position = self.size
        write_all(self._file or self.file, buffers, position, total_bytes)
        self._is_changed = True
        largest = self._largest or self.largest_timestamp()
        if not position:
            self._first_timestamp = batches[0][2]
        index_interval = self._index_interval_bytes
        since_entry = self._bytes_since_index_entry
        for last_offset, size, max_timestamp in batches:
            if max_timestamp > largest[0]:
                largest = TimestampOffset(max_timestamp, last_offset)
            if since_entry > index_interval:
                self.offset_index.append(last_offset, position)
                self.time_index.append(*largest)
                self._free_entries -= 1
                since_entry = 0
            position += size
            since_entry += size
        self._largest = largest
        self._bytes_since_index_entry = since_entry
        self.size = position

    def can_take(self, last_offset: int, batch_count: int) -> bool:
        """Say whether the indexes have room for `batch_count` more batches that end with `last_offset`."""
        return last_offset - self.base_offset <= MAX_RELATIVE_OFFSET and batch_count <= self._free_entries

    def _count_free_entries(self) -> None:
        # One entry is kept for the largest timestamp, when the segment is sealed.
        self._free_entries = min(self.offset_index.free_entries, self.time_index.free_entries - 1)

    def seal(self) -> None:
        """Complete the indexes and give back what they did not need: nothing more will be appended."""
        if self._is_changed and self.size:
            timestamp, offset = self.largest_timestamp()
            if self.time_index.free_entries and timestamp > NO_TIMESTAMP:
                self.time_index.append(timestamp, offset)
        self.offset_index.close(keep_file=self._is_changed)
        self.time_index.close(keep_file=self._is_changed)
        self._is_changed = False
        self._count_free_entries()

    def cut(self, offset: int) -> int:
        """Remove the batch that holds `offset` and all after it; return how many bytes went."""
        found = self.find(offset)
        if found is None:
            return 0
        return self.cut_at(found[0], found[1].base_offset)

    def cut_at(self, position: int, next_offset: int) -> int:
        """Remove all bytes from `position` on, where the batch of `next_offset` was or would be."""
        removed = self.size - position
        self._is_changed = True
        self.file.cut(position)
        self.size = position
        self.offset_index.cut(next_offset)
        self.time_index.cut(next_offset)
        self.txn_index.cut(next_offset)
        self._forget_what_was_read()
        return removed

    def _forget_what_was_read(self) -> None:
        self._first_timestamp = NO_TIMESTAMP if not self.size else _NOT_READ
        self._largest = None
        self._bytes_since_index_entry = 0
        self._count_free_entries()

    # Reading

    def headers(
        self, start: int = 0, *, chunk_bytes: int = batch_scan.SCAN_CHUNK_BYTES
    ) -> Iterator[tuple[int, BatchHeader]]:
        """Yield position and header of every batch from the position `start` on."""
        return batch_scan.headers(self.file, start, self.size, chunk_bytes=chunk_bytes)

    def batches(self, start: int = 0) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Yield position, header and bytes of every batch from the position `start` on."""
        return batch_scan.batches(self.file, start, self.size)

    def find(self, offset: int) -> tuple[int, BatchHeader] | None:
        """Return position and header of the first batch that ends at or after `offset`."""
        located = self.locate(offset)
        return None if located is None else (located.position, self.header_at(located.position))

    def locate(self, offset: int, *, may_wait: bool = True) -> batch_scan.Located | None:
        """Return where the first batch is that ends at or after `offset`.

        Who may not wait for the disk gets NotInMemory where that would be needed.
        """
        try:
            return self._locate(offset, may_wait=may_wait)
        except DamagedSegment:
            # An index that points nowhere is repaired; if the log itself is damaged this raises again.
            self.rebuild_indexes()
            return self._locate(offset, may_wait=True)

    def _locate(self, offset: int, *, may_wait: bool) -> batch_scan.Located | None:
        if not (may_wait or self.offset_index.is_at_hand):
            raise NotInMemory(self.offset_index.read_all)
        indexed_offset, start = self.offset_index.lookup(offset)
        is_recent = self._is_changed and self.size - start <= _SURELY_IN_MEMORY_BYTES
        found = batch_scan.locate(self.file, start, self.size, offset, may_wait=may_wait or is_recent)
        if found is not None and start and found.first_last_offset != indexed_offset:
            raise DamagedSegment(start, f"the index expects a batch that ends with offset {indexed_offset}")
        return found

    def header_at(self, position: int) -> BatchHeader:
        """Return the header of the batch that begins at `position`."""
        _, header = next(self.headers(position, chunk_bytes=HEADER_BYTES))
        return header

    def next_offset(self) -> int:
        """Return the first offset after the last batch."""
        following = self.base_offset
        if not self.size:
            return following
        for _, header in self.headers(self.offset_index.last_entry().position):
            following = header.next_offset
        return following

    def first_timestamp(self) -> int:
        """Return the largest timestamp of the first batch, which `segment.ms` counts from; -1 when there is none."""
        if self._first_timestamp == _NOT_READ:
            self._first_timestamp = self.header_at(0).max_timestamp
        return self._first_timestamp

    def largest_timestamp(self) -> TimestampOffset:
        """Return the largest timestamp, and the last offset of the first batch that has it.

        The time index knows it up to the last entry of the offset index; the few batches from there on are read.
        """
        if self._largest is None:
            largest = self._checked(self.time_index.last_entry)
            start = self.offset_index.last_entry().position if self.time_index.entry_count else 0
            for _, header in self.headers(start):
                if header.max_timestamp > largest.timestamp:
                    largest = TimestampOffset(header.max_timestamp, header.last_offset)
            self._largest = largest
        return self._largest

    def not_older(self, timestamp: int) -> TimestampOffset:
        """Return an entry of the time index before which every record is older than `timestamp`."""
        return self._checked(lambda: self.time_index.lookup(timestamp))

    def _checked(self, look: Callable[[], TimestampOffset]) -> TimestampOffset:
        """Return what is found in the time index if its batch agrees, and else after both indexes were built again."""
        entry = look()
        if entry == (NO_TIMESTAMP, self.base_offset):
            return entry
        found = self.find(entry.offset) if entry.offset >= self.base_offset else None
        if found is not None and found[1].last_offset == entry.offset and found[1].max_timestamp == entry.timestamp:
            return entry
        self.rebuild_indexes()
        return look()

    # Repair

    def has_sane_indexes(self) -> bool:
        """Say whether the indexes can be true of the batches; cheap, not a proof."""
        return self.offset_index.is_sane(self.size) and self.time_index.is_sane()

    def rebuild_indexes(self) -> None:
        """Build both indexes anew from the batches. Raises DamagedSegment at the first that is none."""
        self.forget_indexes()
        for position, header in self.headers():
            self.index_again(position, header)

    def forget_indexes(self) -> None:
        """Empty both indexes and make them large enough for all batches, whatever the settings say today."""
        entries = self.size // max(self._index_interval_bytes, HEADER_BYTES) + 2
        self.offset_index.reset(entries)
        self.time_index.reset(entries)
        self._is_changed = True
        self._forget_what_was_read()
        self._largest = TimestampOffset(NO_TIMESTAMP, self.base_offset)

    def index_again(self, position: int, header: BatchHeader) -> None:
        """Index a batch that is in the file, the next after those that were indexed since `forget_indexes`."""
        last_offset = header.base_offset + header.last_offset_delta
        if not 0 <= last_offset - self.base_offset <= MAX_RELATIVE_OFFSET:
            raise DamagedSegment(position, f"offset {last_offset} does not belong into this segment")
        largest = self._largest
        assert largest is not None, "forget_indexes comes first"
        if header.max_timestamp > largest.timestamp:
            self._largest = largest = TimestampOffset(header.max_timestamp, last_offset)
        if self._bytes_since_index_entry > self._index_interval_bytes:
            self.offset_index.append(last_offset, position)
            self.time_index.append(*largest)
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += header.batch_length + LENGTH_PREFIX_BYTES

    # Life

    def close(self) -> None:
        """Seal the segment and let go of its files; they are opened again when they are used again."""
        self.seal()
        self.txn_index.close()
        self._file = None

    def mark_deleted(self) -> None:
        """Rename all files out of the log: the next start removes them. Who holds the batches may read on."""
        self._let_go()
        for path in (self.path, *self.index_paths()):
            rename_if_there(self._files, path, _deleted(path))
        self._is_deleted = True

    def remove(self) -> None:
        """Remove all files; after `mark_deleted` any thread may."""
        self._let_go()
        for path in (*self.index_paths(), self.path):
            self._files.remove(_deleted(path) if self._is_deleted else path)

    def _let_go(self) -> None:
        self.offset_index.close(keep_file=False)
        self.time_index.close(keep_file=False)
        self.txn_index.close()
        self._file = None

    def index_paths(self) -> tuple[Path, ...]:
        """The files beside the batches; not all of them need exist."""
        return self.offset_index.path, self.time_index.path, self.txn_index.path


def _deleted(path: Path) -> Path:
    return path.with_name(path.name + DELETED_SUFFIX)
