"""What of a log is on disk: reading it, cutting it at either end, flushing and closing it. Appending is `log.py`."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import NoReturn

from highwater.model.errors import StorageError
from highwater.storage import recovery, snapshot, timestamps
from highwater.storage.append_limits import AppendLimits, limits_of
from highwater.storage.compaction import swap
from highwater.storage.compaction.plan import CompactedGroup, CompactionPlan, SealedSegment, plan_compaction
from highwater.storage.disk_health import DiskHealth
from highwater.storage.errors import OffsetOutOfRange
from highwater.storage.file_region import FileRegion
from highwater.storage.files import Files
from highwater.storage.flush import Flush
from highwater.storage.log_config import LogConfig
from highwater.storage.replay import replay_up_to
from highwater.storage.retention import due_segments
from highwater.storage.segment import Segment
from highwater.storage.segments import Segments
from highwater.storage.timestamps import TimedOffset
from highwater.storage.txn_index import AbortedTransaction


class StoredLog:
    """The written part of a log. After an error of the disk that left it in between, it only serves reads."""

    __slots__ = (
        "_config",
        "_files",
        "_is_broken",
        "_is_folder_unsynced",
        "_last_snapshot",
        "_lowest_end_offset",
        "_names_changed",
        "cuts",
        "directory",
        "first_dirty_offset",
        "health",
        "leader_epochs",
        "limits",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "recovery_point",
        "report",
        "segments",
        "transactions",
    )

    def __init__(
        self, files: Files, directory: Path, config: LogConfig, loaded: recovery.LoadedLog, health: DiskHealth
    ) -> None:
        self._files = files
        self.directory = directory
        self.health = health
        self._config = config
        self.limits: AppendLimits = limits_of(config)
        self.segments = Segments(files, directory, loaded.segments)
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        """The offset that the next record gets; of what is written, not of what is staged."""
        self.recovery_point = loaded.recovery_point
        """What is below this offset is on the disk, flushed."""
        self.first_dirty_offset = loaded.first_dirty_offset
        """What is below has been compacted; kept in a checkpoint of the log dir."""
        self._lowest_end_offset = loaded.log_end_offset
        self.leader_epochs = loaded.leader_epochs
        self.producers = loaded.producers
        self.transactions = loaded.transactions
        self.report = loaded.report
        """What opening the log found, for the caller to tell."""
        self.cuts = 0
        """How often records were taken off the end: what was copied before may differ."""
        self._is_broken = False
        self._last_snapshot = loaded.last_snapshot
        self._names_changed = loaded.is_changed
        self._is_folder_unsynced = loaded.is_changed
        """The folder's own name is not known to be on the disk."""

    @property
    def config(self) -> LogConfig:
        """Its settings; they may be replaced at any time, and sizes of indexes count from the next segment on."""
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self.limits = limits_of(config)

    @property
    def takes_writes(self) -> bool:
        """Whether no error of the disk has left the files in between."""
        return not self._is_broken

    @property
    def size_bytes(self) -> int:
        """The size of all batches."""
        return sum(segment.size for segment in self.segments)

    # Reading

    def read(
        self, offset: int, *, max_bytes: int, up_to: int, at_least_one: bool = True, may_wait: bool = True
    ) -> FileRegion | None:
        """Return the batches from the one that holds `offset` to the last one below `up_to`, or None.

        At most `max_bytes`, which may cut the last batch short; but the first one is returned whole, or not at all when
        it is too large and `at_least_one` is not asked for. Raises OffsetOutOfRange, and NotInMemory when they cannot
        be found without waiting for the disk and the caller may not.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            self._raise_out_of_range(offset)
        if offset >= up_to:
            return None
        try:
            return self.segments.read(
                offset, up_to, self.log_end_offset, max_bytes=max_bytes, at_least_one=at_least_one, may_wait=may_wait
            )
        except OSError as error:
            self.health.noticed(error)
            raise StorageError(f"cannot read {self.directory}: {error}") from error

    def _raise_out_of_range(self, offset: int) -> NoReturn:
        raise OffsetOutOfRange(offset, log_start_offset=self.log_start_offset, log_end_offset=self.log_end_offset)

    def offset_for_timestamp(self, timestamp: int) -> TimedOffset | None:
        """Return the first record whose timestamp is at least `timestamp`. Raises StorageError."""
        with self._disk_may_fail("read"):
            return timestamps.first_at_or_after(self.segments, timestamp, log_start_offset=self.log_start_offset)

    def offset_of_max_timestamp(self) -> TimedOffset | None:
        """Return the first record that has the largest timestamp. Raises StorageError."""
        with self._disk_may_fail("read"):
            return timestamps.youngest(self.segments, log_start_offset=self.log_start_offset)

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch at or below `epoch`, and the offset where it ends; see `LeaderEpochs.end_offset`."""
        return self.leader_epochs.end_offset(epoch, log_end_offset=self.log_end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the offset below which no transaction is open: how far read_committed readers see."""
        unstable = self.transactions.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(max(unstable, self.log_start_offset), high_watermark)

    def aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions with records between two offsets, by first offset. Raises StorageError."""
        found: list[AbortedTransaction] = []
        with self._disk_may_fail("read"):
            for segment in self.segments.since(start):
                if segment.txn_index.collect(start, end, found):
                    break
        return sorted(found, key=attrgetter("first_offset"))

    # Cutting at either end

    def truncate_to(self, offset: int, *, now_ms: int) -> None:
        """Remove all records from `offset` on, and those that share a batch with it. Raises StorageError."""
        if offset >= self.log_end_offset:
            with self._disk_must_obey("truncate"):
                self.leader_epochs.cut_end(offset)  # an epoch may have begun at the end and have no records
            return
        if offset < self.segments[0].base_offset:
            self.restart_at(offset, now_ms=now_ms)
            return
        with self._disk_must_obey("truncate"):
            self._set_end(self.segments.cut(offset))
            self.log_start_offset = min(self.log_start_offset, self.log_end_offset)

    def restart_at(self, offset: int, *, now_ms: int) -> None:
        """Remove and forget everything; the next record gets `offset`. Raises StorageError."""
        with self._disk_must_obey("truncate"):
            if self.segments[0].base_offset < offset < self.log_end_offset:
                self.segments.cut(offset)
            begun = self.segments.begin_at(offset, self.config, now_ms)  # first, so that a full disk changes nothing
            self._remove_snapshots(snapshot.offsets(self._files, self.directory))
            self.segments.keep_only(begun)
            self.leader_epochs.clear()
            self.log_start_offset = offset
            self._set_end(offset)

    def _set_end(self, offset: int) -> None:
        """Forget all that is known of the records from the new end on."""
        self.cuts += 1
        self.log_end_offset = offset
        self.recovery_point = min(self.recovery_point, offset)
        self.first_dirty_offset = min(self.first_dirty_offset, offset)
        self._lowest_end_offset = min(self._lowest_end_offset, offset)
        self.leader_epochs.cut_end(offset)
        self._remove_snapshots_after(offset)
        taken = snapshot.offsets(self._files, self.directory)
        replay = replay_up_to(self._files, self.directory, list(self.segments), offset, taken, [])
        self.producers, self.transactions = replay.producers, replay.transactions

    def _remove_snapshots_after(self, offset: int) -> None:
        """Remove the snapshots that tell of what is no longer there."""
        taken = snapshot.offsets(self._files, self.directory)
        self._remove_snapshots(taken_at for taken_at in taken if taken_at > offset)
        self._last_snapshot = None
        self._names_changed = True

    def _remove_snapshots(self, offsets: Iterable[int]) -> None:
        for offset in offsets:
            self._files.remove(snapshot.path_of(self.directory, offset))

    def delete_records_before(self, offset: int) -> None:
        """Let the log start at `offset`; the segments before it go with the next `apply_retention`.

        Their epochs go with them and not before: a crash may put the start back, and what is there again has to be
        compared with what followers have.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            self._raise_out_of_range(offset)
        self.log_start_offset = offset

    def apply_retention(self, now_ms: int, *, high_watermark: int) -> list[Segment]:
        """Take the segments out of the log that have expired or are too many. Raises StorageError.

        As in Apache Kafka, an active segment of which everything has expired is replaced by an empty one first. The
        caller removes those returned after `file.delete.delay.ms`, on any thread; what a crash leaves of them goes when
        the log is opened again.
        """
        due = due_segments(
            list(self.segments),
            self.config,
            now_ms=now_ms,
            log_start_offset=self.log_start_offset,
            log_end_offset=self.log_end_offset,
            high_watermark=high_watermark,
        )
        if due:
            with self._disk_must_obey("apply retention to"):
                self._take_out(due, now_ms)
        return due

    def _take_out(self, due: list[Segment], now_ms: int) -> None:
        if due[-1] is self.segments.active:
            self._roll(self.log_end_offset, now_ms)
        for segment in due:
            self.segments.detach_oldest()
            self.log_start_offset = max(self.log_start_offset, self.segments[0].base_offset)
            segment.mark_deleted()
        self._names_changed = True
        self.leader_epochs.cut_start(self.segments[0].base_offset)
        taken = snapshot.offsets(self._files, self.directory)
        self._remove_snapshots(taken_at for taken_at in taken if taken_at < self.segments[0].base_offset)

    # Compaction

    def plan_compaction(self, *, high_watermark: int, now_ms: int, memory_bytes: int) -> CompactionPlan:
        """Return what a round of compaction would work on; `is_due` says whether it is time. Raises StorageError.

        One round at a time: `replace_segments` for each of its groups, then `finish_compaction`.
        """
        self._lowest_end_offset = self.log_end_offset
        with self._disk_may_fail("read"):
            return plan_compaction(
                self.directory,
                self.config,
                list(self.segments),
                self.producers,
                first_dirty_offset=self.first_dirty_offset,
                last_stable_offset=self.last_stable_offset(high_watermark),
                now_ms=now_ms,
                memory_bytes=memory_bytes,
            )

    def replace_segments(self, group: CompactedGroup) -> list[Segment] | None:
        """Put a compacted segment in the place of those it was made from; return these, to be removed later.

        They may be removed after `sync_names`, never before. None when they are no longer what they were: retention or
        truncation came first. Raises StorageError.
        """
        old = self._unchanged(group.replaced)
        if old is None:
            return None
        new = Segment(
            self._files,
            self.directory,
            group.base_offset,
            self.config,
            created_ms=old[-1].created_ms,
            sizes=group.sizes,
        )
        with self._disk_must_obey("compact"):
            swap.commit(self._files, self.directory, group.base_offset)
            for segment in old:
                segment.mark_deleted()
            swap.finish(self._files, self.directory, group.base_offset)
            self.segments.replace(old, new)
            self._remove_snapshots(segment.base_offset for segment in old[1:])
        self._names_changed = True
        return old

    def has_unchanged(self, planned: Sequence[SealedSegment]) -> bool:
        """Return whether these segments are still what they were when their compaction was planned."""
        return self._unchanged(planned) is not None

    def _unchanged(self, planned: Sequence[SealedSegment]) -> list[Segment] | None:
        expected = {member.base_offset: member.sizes.log for member in planned}
        found = [segment for segment in self.segments if expected.get(segment.base_offset) == segment.size]
        return None if len(found) != len(expected) or self.segments.active in found else found

    def sync_names(self) -> None:
        """Return when the disk knows which files there are; for a thread. Raises StorageError."""
        with self._disk_may_fail("sync the names in"):
            self._files.sync_folder(self.directory)

    def finish_compaction(self, end_offset: int) -> None:
        """Know that all below `end_offset` is compacted, unless it was truncated and written anew in the meantime."""
        self.first_dirty_offset = min(end_offset, self._lowest_end_offset)

    # Moving to another log dir

    def take_over_from(self, other: "StoredLog") -> None:
        """Know what `other` knows beyond its batches, of which this log has a copy. Raises StorageError."""
        assert self.log_end_offset == other.log_end_offset, "a copy that is whole"
        self.log_start_offset = other.log_start_offset
        self.first_dirty_offset = other.first_dirty_offset
        self.producers, self.transactions = other.producers, other.transactions
        with self._disk_must_obey("begin"):
            for epoch, start_offset in other.leader_epochs.entries:
                if epoch > self.leader_epochs.latest:
                    self.leader_epochs.assign(epoch, start_offset)
        self._last_snapshot = None
        self._names_changed = True

    def folder_was_renamed(self) -> None:
        """Let the next flush sync the folder's name too."""
        self._is_folder_unsynced = True

    # Life

    def remove_expired_producers(self, now_ms: int) -> None:
        """Forget the producers that have been silent for `producer.id.expiration.ms`."""
        self.producers.remove_expired(now_ms, self.config.producer_id_expiration_ms)

    def _roll(self, base_offset: int, now_ms: int) -> Segment:
        """Make a new active segment, with a snapshot of the producers of all that came before."""
        self._take_snapshot(base_offset)
        return self.segments.roll(base_offset, self.config, now_ms)

    def _take_snapshot(self, offset: int) -> None:
        snapshot.write(self._files, snapshot.path_of(self.directory, offset), self.producers)
        self._last_snapshot = offset
        self._names_changed = True

    @property
    def has_unflushed_sealed_segments(self) -> bool:
        """Whether a segment that is complete is not known to be on the disk."""
        return self.recovery_point < self.segments.active.base_offset

    def start_flush(self) -> Flush:
        """Return what must be synced for all that is written to be on the disk: `run` it, then `finish_flush`."""
        return self._flush(with_last_indexes=False)

    def _flush(self, *, with_last_indexes: bool) -> Flush:
        flush = Flush(self._files, self.directory, self.log_end_offset, self.health)
        names_changed = self._names_changed or self.leader_epochs.is_unsynced
        if names_changed or self.recovery_point < self.log_end_offset:
            # One that ends at the recovery point was the last one when it was flushed: its indexes were left out.
            flush.add_segments(self.segments.since(self.recovery_point - 1), with_last_indexes=with_last_indexes)
        if names_changed:
            flush.add_names()
        if self._is_folder_unsynced:
            flush.add_folder()
            self._is_folder_unsynced = False
        self._names_changed = self.leader_epochs.is_unsynced = False
        return flush

    def finish_flush(self, flush: Flush) -> None:
        """Move the recovery point if `flush` has run. If it failed, nothing more is written.

        After a failed sync the kernel may have dropped the bytes, and the next one would report success.
        """
        if flush.has_run:
            self.recovery_point = max(self.recovery_point, min(flush.end_offset, self.log_end_offset))
        elif flush.has_failed:
            self._is_broken = True
        else:  # nobody waited for it: what it would have synced is left to the next one
            self._names_changed = self._is_folder_unsynced = True

    def flush(self) -> None:
        """Return when all that is written is on the disk. Raises StorageError."""
        if self.recovery_point < self.log_end_offset:
            flush = self.start_flush()
            try:
                flush.run()
            finally:
                self.finish_flush(flush)

    def close(self) -> Flush:
        """Let go of all files. When the flush that is returned has run too, this was a clean stop. Raises StorageError.

        A log that was not written to since it was opened has nothing to flush.
        """
        if self._is_broken:
            raise StorageError(f"{self.directory} failed before; its next start must check it")
        with self._disk_must_obey("close"):
            end = self.log_end_offset
            is_blank = end == self.segments[0].base_offset and not len(self.producers)
            is_written = end != self._last_snapshot and not is_blank
            if is_written:
                self._take_snapshot(end)  # a new name: with it goes what every flush before has left to recovery
            flush = self._flush(with_last_indexes=True)
            if is_written:
                flush.add_snapshot(end)
            for segment in self.segments:
                segment.close()
        return flush

    @contextmanager
    def _disk_may_fail(self, action: str) -> Iterator[None]:
        """Turn an error of the disk into a StorageError."""
        try:
            yield
        except OSError as error:
            self.health.noticed(error)
            raise StorageError(f"cannot {action} {self.directory}: {error}") from error

    @contextmanager
    def _disk_must_obey(self, action: str) -> Iterator[None]:
        """Turn an error of the disk into a StorageError, and take no more writes: the files may be in between."""
        with self._disk_may_fail(action):
            try:
                yield
            except OSError:
                self._is_broken = True
                raise
