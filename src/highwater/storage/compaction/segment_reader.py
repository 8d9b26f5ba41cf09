"""Reads the batches of sealed segments, each one checked."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

from crc32c import crc32c

from highwater.protocol.records.batch import CHECKED_FROM, BatchHeader
from highwater.storage import batch_scan
from highwater.storage.compaction.plan import SealedSegment
from highwater.storage.errors import DamagedSegment
from highwater.storage.files import Files

Pace: TypeAlias = Callable[[int], None]
"""Told how many bytes were read or written; it waits, to keep to `log.cleaner.io.max.bytes.per.second`.

It lets others go first, too, so whoever computes for long calls it now and then, with 0.
"""


class SegmentReader:
    """Reads from one folder, at a pace. Raises DamagedSegment rather than to hand out a damaged batch."""

    __slots__ = ("_files", "_folder", "_pace")

    def __init__(self, files: Files, folder: Path, pace: Pace) -> None:
        self._files = files
        self._folder = folder
        self._pace = pace

    def batches(self, segment: SealedSegment, start: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
        """Yield the position behind it, the header and the bytes of every batch between two positions."""
        file = self._files.open(self._folder / f"{segment.base_offset:020d}.log")
        for position, header, batch in batch_scan.batches(file, start, end):
            if crc32c(batch[CHECKED_FROM:]) != header.crc:
                raise DamagedSegment(position, f"the batch of offset {header.base_offset} does not match its checksum")
            size = len(batch)
            self._pace(size)
            yield position + size, header, batch

    def make_way(self) -> None:
        """Let others go first, between two batches that were read at once."""
        self._pace(0)
