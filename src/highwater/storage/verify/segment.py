"""Check one segment: every batch, and every index entry against the batches."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater.model.errors import KafkaError
from highwater.protocol.records.batch import HEADER, HEADER_BYTES, MAGIC, BatchHeader
from highwater.protocol.records.validate import LAST_CODEC, check_batch
from highwater.storage import batch_scan
from highwater.storage.errors import DamagedSegment
from highwater.storage.files import Files
from highwater.storage.leader_epochs import LeaderEpochs
from highwater.storage.verify.finding import Finding
from highwater.storage.verify.indexes import CHECK_BY_SUFFIX, FoundBatch, index_check

MAX_RELATIVE_OFFSET: Final = 2**31 - 1


@dataclass(slots=True)
class Walk:
    """How far the batches of one partition have been followed, segment by segment."""

    leader_epochs: LeaderEpochs
    next_offset: int = 0
    leader_epoch: int = -1
    segments: int = 0
    batches: int = 0
    size_bytes: int = 0


def check_segment(files: Files, path: Path, walk: Walk, *, may_end_torn: bool) -> Iterator[Finding]:
    """Yield what is wrong with the segment at `path` and its indexes, and move `walk` to its end.

    Behind bytes that are no batch nothing can be found again, so the rest of the segment is left out then.
    """
    base_offset = int(path.stem)
    if base_offset < walk.next_offset:
        yield Finding(path, f"begins before the end of the segment before it, {walk.next_offset}", 0, base_offset)
    walk.next_offset = base_offset
    walk.segments += 1
    file = files.open(path)
    size = file.size()
    index_paths = [path.with_suffix(suffix) for suffix in CHECK_BY_SUFFIX]
    checks = [index_check(files, index_path) for index_path in index_paths if files.exists(index_path)]
    for check in checks:
        yield from check.begin()
    try:
        for found in batch_scan.batches(file, 0, size):
            yield from _check_batch(path, found, walk, base_offset)
            for check in checks:
                yield from check.follow(found)
    except DamagedSegment as damage:
        rest = file.read(damage.position, HEADER_BYTES)
        is_torn = may_end_torn and _is_cut_short(rest, size - damage.position)
        problem = "ends in the middle of an append; the next start cuts it off" if is_torn else str(damage)
        yield Finding(path, problem, damage.position, walk.next_offset, is_repaired_on_start=is_torn)
        if not is_torn:
            return
    for check in checks:
        yield from check.finish()


def _check_batch(path: Path, found: FoundBatch, walk: Walk, base_offset: int) -> Iterator[Finding]:
    position, header, batch = found
    for problem in _problems(header, batch, walk, base_offset):
        yield Finding(path, problem, position, header.base_offset)
    walk.next_offset = max(walk.next_offset, header.next_offset)
    walk.leader_epoch = max(walk.leader_epoch, header.leader_epoch)
    walk.batches += 1
    walk.size_bytes += header.size


def _problems(header: BatchHeader, batch: memoryview, walk: Walk, base_offset: int) -> Iterator[str]:
    try:
        check_batch(batch)
    except KafkaError as error:
        yield error.message
    if header.base_offset < walk.next_offset:
        yield f"batch begins with offset {header.base_offset}, the log is at {walk.next_offset} already"
    if header.last_offset - base_offset > MAX_RELATIVE_OFFSET:
        yield f"batch ends with offset {header.last_offset}, too far from the segment's first for an index"
    if not 0 <= header.record_count <= header.last_offset_delta + 1:
        yield f"batch states {header.record_count} records for {header.last_offset_delta + 1} offsets"
    if header.codec > LAST_CODEC:
        yield f"batch has codec {header.codec}, which does not exist"
    if header.leader_epoch < walk.leader_epoch:
        yield f"batch has leader epoch {header.leader_epoch}, one before it {walk.leader_epoch}"
    expected = walk.leader_epochs.epoch_at(header.base_offset)  # -1 before the log start, where nothing is kept
    if expected >= 0 and expected != header.leader_epoch:
        yield f"batch has leader epoch {header.leader_epoch}, the checkpoint of epochs says {expected}"


def _is_cut_short(rest: bytes, available: int) -> bool:
    """Say whether `rest` can be the beginning of a batch that was being written."""
    if available < HEADER_BYTES:
        return True
    header = BatchHeader._make(HEADER.unpack_from(rest))
    return header.magic == MAGIC and header.size > available
