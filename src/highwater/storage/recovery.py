"""Opening a log: find its segments, repair what a crash left, and know its producers and leader epochs again.

After a clean stop the files are believed. After any other, every batch from the segment of the recovery point on is
checked, the log is cut at the first that is damaged, and the indexes of these segments are built anew.
"""

from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from crc32c import crc32c

from highwater.model.errors import KafkaError, StorageError
from highwater.protocol.records.batch import CHECKED_FROM, BatchHeader
from highwater.storage import snapshot
from highwater.storage.checkpoints import DamagedCheckpoint
from highwater.storage.compaction import swap
from highwater.storage.errors import DamagedSegment
from highwater.storage.files import Files
from highwater.storage.leader_epochs import NO_EPOCH, LeaderEpochs
from highwater.storage.log_config import LogConfig
from highwater.storage.offset_index import OffsetIndex
from highwater.storage.producer_state import ProducerStates
from highwater.storage.replay import Replay, replay_up_to
from highwater.storage.segment import DELETED_SUFFIX, LOG_SUFFIX, Segment, SegmentSizes
from highwater.storage.time_index import TimeIndex
from highwater.storage.transactions import Transactions
from highwater.storage.txn_index import TransactionIndex

_LEFTOVER_SUFFIXES: Final = (DELETED_SUFFIX, ".cleaned", ".tmp")
"""Of deleted segments, of Kafka's compaction, of files that were about to be replaced."""
_SEGMENT_SUFFIXES: Final = (LOG_SUFFIX, OffsetIndex.suffix, TimeIndex.suffix, TransactionIndex.suffix)


@dataclass(slots=True)
class RecoveryReport:
    """What opening a log found and did, for the caller to tell."""

    checked_bytes: int = 0
    cut_bytes: int = 0
    cut_at_offset: int = -1
    """The offset from which on the log was cut; -1 when it was not."""
    notes: list[str] = field(default_factory=list)
    """One sentence for each repair."""


@dataclass(slots=True)
class LoadedLog:
    """A log as it was found, repaired."""

    segments: list[Segment]
    log_start_offset: int
    log_end_offset: int
    recovery_point: int
    first_dirty_offset: int
    last_snapshot: int | None
    """Where the newest snapshot was taken, if that is known."""
    is_changed: bool
    """Whether names in the folder, and that of the folder, may not be on the disk."""
    leader_epochs: LeaderEpochs
    producers: ProducerStates
    transactions: Transactions
    report: RecoveryReport


def load(
    files: Files,
    folder: Path,
    config: LogConfig,
    *,
    now_ms: int,
    clean: bool,
    recovery_point: int,
    log_start_offset: int,
    first_dirty_offset: int,
) -> LoadedLog:
    """Open the log in `folder`, which is made when it is missing."""
    is_new = not files.exists(folder)
    files.make_folder(folder)
    loader = _Loader(files, folder, config, now_ms)
    loader.report.notes += swap.complete_after_crash(files, folder)
    loader.find_segments()
    if not loader.segments:
        loader.begin_at(log_start_offset)
    replay = loader.believe() if clean else None
    if replay is not None:
        recovery_point = replay.offset  # A clean stop has flushed everything.
    else:
        replay = loader.check_from(recovery_point, first_dirty_offset)
    log_start_offset = max(log_start_offset, loader.segments[0].base_offset)
    if log_start_offset > replay.offset:
        loader.report.notes.append(f"{folder} ends at {replay.offset}, before its start {log_start_offset}; begun anew")
        loader.remove_segments_from(0)
        loader.begin_at(log_start_offset)
        replay = Replay(log_start_offset, ProducerStates())
    loader.settle(replay.offset)
    return LoadedLog(
        segments=loader.segments,
        log_start_offset=log_start_offset,
        log_end_offset=replay.offset,
        recovery_point=min(recovery_point, replay.offset),
        first_dirty_offset=min(max(first_dirty_offset, log_start_offset), replay.offset),
        last_snapshot=replay.snapshot_offset,
        # A process that was killed may have left names that only its kernel knows.
        is_changed=loader.is_changed or is_new or not clean,
        leader_epochs=loader.epochs,
        producers=replay.producers,
        transactions=replay.transactions,
        report=loader.report,
    )


class _Loader:
    """The steps of opening one log, and what they share."""

    def __init__(self, files: Files, folder: Path, config: LogConfig, now_ms: int) -> None:
        self._files = files
        self._folder = folder
        self._config = config
        self._now_ms = now_ms
        self._snapshots: list[int] = []
        self._without_index: set[int] = set()
        self._distrusted_from: int | None = None
        self._compacted_up_to = 0
        self.report = RecoveryReport()
        self.is_changed = False
        self.segments: list[Segment] = []
        try:
            self.epochs = LeaderEpochs.load(files, folder)
        except DamagedCheckpoint as error:
            self.report.notes.append(f"{error}; read again from the batches")
            self.epochs = LeaderEpochs(files, folder)

    # Files

    def find_segments(self) -> None:
        """Make a segment of each `.log` file, and remove what belongs to none."""
        found: dict[int, dict[str, int]] = {}
        for entry in self._files.list(self._folder):
            stem, suffix = entry.name[:20], entry.name[20:]
            if entry.name.endswith(_LEFTOVER_SUFFIXES):
                self._files.remove(self._folder / entry.name)
            elif snapshot.is_snapshot(entry.name):
                self._snapshots.append(int(stem))
            elif stem.isdecimal() and suffix in _SEGMENT_SUFFIXES:
                found.setdefault(int(stem), {})[suffix] = entry.size
        for base_offset, sizes in sorted(found.items()):
            if LOG_SUFFIX in sizes:
                self._add_segment(base_offset, sizes)
            else:
                for suffix in sizes:
                    self._files.remove(self._folder / f"{base_offset:020d}{suffix}")

    def _add_segment(self, base_offset: int, sizes: dict[str, int]) -> None:
        if sizes[LOG_SUFFIX] and not all(
            index.suffix in sizes and sizes[index.suffix] % index.entry_bytes == 0 for index in (OffsetIndex, TimeIndex)
        ):
            self._without_index.add(base_offset)
        known = SegmentSizes(*(sizes.get(suffix, 0) for suffix in _SEGMENT_SUFFIXES))
        self.segments.append(
            Segment(self._files, self._folder, base_offset, self._config, created_ms=self._now_ms, sizes=known)
        )

    def begin_at(self, offset: int) -> None:
        """Make the first segment of a log that has none."""
        self.is_changed = True
        self._add_segment(offset, {LOG_SUFFIX: 0})
        self.segments[0].create()

    def remove_segments_from(self, number: int) -> None:
        """Remove the segments from a number on."""
        for segment in self.segments[number:]:
            self.report.cut_bytes += segment.size
            segment.remove()
        del self.segments[number:]

    # After a clean stop

    def believe(self) -> Replay | None:
        """Return what is known at the end of a log that was closed; None when it is damaged all the same."""
        segment = self.segments[0]
        try:
            for segment in self.segments:
                segment.txn_index.check()
                is_active = segment is self.segments[-1]
                if segment.base_offset in self._without_index or (is_active and not segment.has_sane_indexes()):
                    segment.rebuild_indexes()
                    self.is_changed = True
                    self.report.notes.append(f"{segment.path}: an index was missing or damaged, and built again")
            return self._replay_up_to(self.segments[-1].next_offset())
        except DamagedSegment as error:
            self.report.notes.append(f"{segment.path} was closed properly and is {error}; the log is checked")
            self._distrusted_from = segment.base_offset
            return None

    def _replay_up_to(self, offset: int) -> Replay:
        return replay_up_to(self._files, self._folder, self.segments, offset, self._snapshots, self.report.notes)

    # After a crash

    def check_from(self, recovery_point: int, first_dirty_offset: int) -> Replay:
        """Check every batch from the segment of the recovery point on, and cut the log at the first that is damaged."""
        self.is_changed = True
        self._compacted_up_to = first_dirty_offset
        if self._distrusted_from is not None:
            recovery_point = min(recovery_point, self._distrusted_from)
        # One that ends at the recovery point was the last one when it was flushed: its indexes were left out.
        checked = [segment for segment in self.segments[1:] if segment.base_offset >= recovery_point]
        first = self.segments[-len(checked) - 1]
        replay = self._replay_up_to(first.base_offset)
        for number, segment in enumerate([first, *checked], len(self.segments) - len(checked) - 1):
            if segment is not first and self._lacks_batches(replay.offset, segment.base_offset):
                # Nothing says that bytes reach the disk in the order in which they were written.
                self.report.notes.append(f"{self._folder} has nothing from {replay.offset} on to {segment.base_offset}")
                self.report.cut_at_offset = replay.offset
                self.remove_segments_from(number)
                break
            replay.offset = max(replay.offset, segment.base_offset)
            if segment is not first:
                snapshot.write(self._files, snapshot.path_of(self._folder, segment.base_offset), replay.producers)
            try:
                self._check_segment(segment, replay)
            except DamagedSegment as error:
                self.report.notes.append(f"{segment.path} is {error}; cut there, at offset {replay.offset}")
                self.report.cut_at_offset = replay.offset
                self.report.cut_bytes += segment.cut_at(error.position, replay.offset)
                self.remove_segments_from(number + 1)
                break
        return replay

    def _lacks_batches(self, start: int, end: int) -> bool:
        """Return whether something is missing between two offsets; compaction leaves gaps that are no fault."""
        if start >= end or self._config.compact or end <= self._compacted_up_to:
            return False
        if self._config.compact is None:
            raise StorageError(f"{self._folder} has nothing from {start} on to {end}: right only if it was compacted")
        return True

    def _check_segment(self, segment: Segment, replay: Replay) -> None:
        """Check and index every batch of a segment. Raises DamagedSegment at the first that is damaged."""
        segment.forget_indexes()
        segment.txn_index.reset()
        for position, header, batch in segment.batches():
            if header.base_offset < replay.offset:
                raise DamagedSegment(position, f"offset {header.base_offset} comes after all below {replay.offset}")
            if crc32c(batch[CHECKED_FROM:]) != header.crc:
                raise DamagedSegment(position, "its batch does not match its checksum")
            if self._lacks_batches(replay.offset, header.base_offset):  # an offset is not under the checksum
                raise DamagedSegment(position, f"offset {header.base_offset} follows {replay.offset - 1}")
            segment.index_again(position, header)
            if header.producer_id < 0:
                replay.offset = header.base_offset + header.last_offset_delta + 1
            else:
                self._follow(segment, position, replay, header, batch)
            self._learn_epoch(header)
        self.report.checked_bytes += segment.size

    def _learn_epoch(self, header: BatchHeader) -> None:
        """Believe a batch more than the file of epochs, which may tell of later ones that a power cut took away."""
        epoch = header.leader_epoch
        if epoch > self.epochs.latest:
            self.epochs.assign(epoch, header.base_offset)
        elif NO_EPOCH < epoch < self.epochs.latest and epoch < self.epochs.epoch_at(header.base_offset):
            self.epochs.forget_after(epoch)
            if epoch > self.epochs.latest:
                self.epochs.assign(epoch, header.base_offset)

    @staticmethod
    def _follow(segment: Segment, position: int, replay: Replay, header: BatchHeader, batch: memoryview) -> None:
        try:
            aborted = replay.follow(header, batch)
        except KafkaError as error:
            raise DamagedSegment(position, error.message) from error
        if aborted is not None:
            segment.txn_index.append(aborted)

    # Either way

    def settle(self, log_end_offset: int) -> None:
        """Bring what lies beside the batches in line with them, and let go of all files until they are used."""
        self._read_missing_epochs()
        self.epochs.cut_end(log_end_offset)
        self.epochs.cut_start(self.segments[0].base_offset)
        self._remove_strays(log_end_offset)
        for segment in self.segments:
            segment.close()

    def _read_missing_epochs(self) -> None:
        """Learn from the batches which epochs wrote those that are older than all that the file of epochs tells.

        It was lost or damaged, or cut where the log began before a crash put its start back. Who does not know which
        epochs wrote its records cannot tell a follower that it has others.
        """
        known = self.epochs.entries
        end = known[0].start_offset if known else None
        older: list[tuple[int, int]] = []
        for segment in self.segments:
            if not segment.size or (end is not None and segment.base_offset >= end):
                continue
            with suppress(DamagedSegment):  # who reads there is told; what comes after it counts all the same
                for _, header in segment.headers():
                    if end is not None and header.base_offset >= end:
                        break
                    if header.leader_epoch > (older[-1][0] if older else NO_EPOCH):
                        older.append((header.leader_epoch, header.base_offset))
        if older:
            self.epochs.clear()
            self.epochs.assign_all([*older, *known])

    def _remove_strays(self, log_end_offset: int) -> None:
        """Remove the snapshots that no recovery would start from: all but those of segments and the newest one."""
        kept = {segment.base_offset for segment in self.segments}
        kept.add(max((taken_at for taken_at in self._snapshots if taken_at <= log_end_offset), default=log_end_offset))
        for taken_at in self._snapshots:
            if taken_at not in kept:
                self._files.remove(snapshot.path_of(self._folder, taken_at))
