"""Check whatever a path leads to: a log dir with its checkpoints, a partition, or one segment."""

import re
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Final

from highwater.model.ids import TopicPartition
from highwater.storage import checkpoints
from highwater.storage.files import Files
from highwater.storage.leader_epochs import LeaderEpochs
from highwater.storage.log_dir import CLEAN_STOP_MARKER
from highwater.storage.verify.finding import Finding
from highwater.storage.verify.indexes import CHECK_BY_SUFFIX
from highwater.storage.verify.partition import SEGMENT_NAME, check_partition
from highwater.storage.verify.segment import Walk, check_segment

_PARTITION_NAME: Final = re.compile(r"(.+)-(\d+)")
OFFSET_CHECKPOINTS: Final = (
    checkpoints.RECOVERY_POINTS,
    checkpoints.HIGH_WATERMARKS,
    checkpoints.LOG_START_OFFSETS,
    checkpoints.CLEANED_OFFSETS,
)


class Verifier:
    """Walks files and counts what it has seen."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self.partitions = 0
        self.segments = 0
        self.batches = 0
        self.size_bytes = 0

    def check(self, path: Path) -> Iterator[Finding]:
        """Yield what is wrong with all that `path` leads to. Raises OSError for what cannot be read."""
        if SEGMENT_NAME.fullmatch(path.name):
            yield from self._check_segment(path)
        elif path.suffix in CHECK_BY_SUFFIX:
            segment = path.with_suffix(".log")
            yield from (finding for finding in self._check_segment(segment) if finding.file == path)
        elif any(SEGMENT_NAME.fullmatch(entry.name) for entry in self._files.list(path)):
            is_unclean = not self._files.exists(path.parent / CLEAN_STOP_MARKER)
            yield from self._check_partition(path, may_end_torn=is_unclean)
        else:
            yield from self._check_log_dir(path)

    def _check_segment(self, path: Path) -> Iterator[Finding]:
        walk = Walk(LeaderEpochs(self._files, path.parent))
        yield from check_segment(self._files, path, walk, may_end_torn=False)
        self._count(walk)

    def _check_partition(self, folder: Path, *, may_end_torn: bool) -> Generator[Finding, None, int]:
        walk = yield from check_partition(self._files, folder, may_end_torn=may_end_torn)
        self.partitions += 1
        self._count(walk)
        return walk.next_offset

    def _check_log_dir(self, log_dir: Path) -> Iterator[Finding]:
        is_unclean = not self._files.exists(log_dir / CLEAN_STOP_MARKER)
        log_end_offsets: dict[TopicPartition, int] = {}
        for entry in self._files.list(log_dir):
            name = _PARTITION_NAME.fullmatch(entry.name)
            if entry.is_folder and name:
                partition = TopicPartition(name[1], int(name[2]))
                log_end_offsets[partition] = yield from self._check_partition(
                    log_dir / entry.name, may_end_torn=is_unclean
                )
        for checkpoint in OFFSET_CHECKPOINTS:
            yield from self._check_checkpoint(log_dir / checkpoint, log_end_offsets)

    def _check_checkpoint(self, path: Path, log_end_offsets: Mapping[TopicPartition, int]) -> Iterator[Finding]:
        try:
            offsets = checkpoints.read_offsets(self._files, path)
        except checkpoints.DamagedCheckpoint as error:
            yield Finding(path, error.message)
            return
        for partition, offset in offsets.items():
            end = log_end_offsets.get(partition)  # None: the partition is gone, and its line goes with the next write
            if end is not None and offset > end:
                yield Finding(path, f"{partition} ends before this offset, at {end}", offset=offset)

    def _count(self, walk: Walk) -> None:
        self.segments += walk.segments
        self.batches += walk.batches
        self.size_bytes += walk.size_bytes
