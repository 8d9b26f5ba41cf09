"""One partition's log on disk.

Appends come in two steps, so that all that arrived together is written together: `stage` checks a batch and gives it
its offset, `write_staged` writes everything that was staged. Readers see a batch when it is written, never before.
"""

from bisect import bisect_right
from operator import attrgetter
from pathlib import Path
from struct import Struct
from typing import Final

from crc32c import crc32c

from highwater.model.errors import StorageError
from highwater.protocol.records.batch import (
    CHECKED_FROM,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    TRANSACTIONAL,
    iter_batches,
    patch_log_append_time,
    read_header,
)
from highwater.protocol.records.errors import InvalidRecord
from highwater.protocol.records.validate import LAST_CODEC, check_batch, check_produced, check_timestamps
from highwater.storage import recovery, snapshot
from highwater.storage.errors import OffsetOutOfRange, RecordListTooLarge
from highwater.storage.file_region import FileRegion
from highwater.storage.files import Files
from highwater.storage.log_config import LogConfig
from highwater.storage.replay import follow_transaction, remember
from highwater.storage.segment import BatchSummary, Segment
from highwater.storage.transactions import Transactions

_OFFSET_LENGTH_EPOCH: Final = Struct(">qii")
_BROKERS_ONLY: Final = LOG_APPEND_TIME | CONTROL | DELETE_HORIZON
_NO_APPEND_TIME: Final = -1
_REMEMBERED_BOUNDARIES: Final = 32
_BASE_OFFSET: Final = attrgetter("base_offset")


class Staged:
    """The answer to a batch that was staged, or that repeats an earlier one."""

    __slots__ = ("append_time_ms", "base_offset", "duplicate", "last_offset", "log_start_offset")

    def __init__(
        self,
        base_offset: int,
        last_offset: int,
        append_time_ms: int,
        log_start_offset: int,
        duplicate: bool = False,  # noqa: FBT001, FBT002 - a keyword costs on this path
    ) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.append_time_ms = append_time_ms
        """-1 unless the topic has LogAppendTime."""
        self.log_start_offset = log_start_offset
        self.duplicate = duplicate


class Log:
    """The log of one partition replica. After a StorageError that says so, it only serves reads."""

    __slots__ = (
        "_active",
        "_boundaries",
        "_broken",
        "_files",
        "_segments",
        "_staged_batches",
        "_staged_buffers",
        "_staged_bytes",
        "_staged_end",
        "_staged_epochs",
        "_staged_now_ms",
        "_staged_transactional",
        "config",
        "directory",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "producers",
        "recovery_point",
        "report",
        "transactions",
    )

    def __init__(
        self,
        files: Files,
        directory: Path,
        config: LogConfig,
        loaded: recovery.LoadedLog,
        *,
        recovery_point: int,
    ) -> None:
        self._files = files
        self.directory = directory
        self.config = config
        self._segments = loaded.segments
        self._active = loaded.segments[-1]
        self.log_start_offset = loaded.log_start_offset
        self.log_end_offset = loaded.log_end_offset
        """The offset that the next record gets; of what is written, not of what is staged."""
        self.recovery_point = recovery_point
        """What is below this offset is on the disk, flushed."""
        self.leader_epochs = loaded.leader_epochs
        self.producers = loaded.producers
        self.transactions = loaded.transactions
        self.report = loaded.report
        """What opening the log found, for the caller to tell."""
        self._broken = False
        self._boundaries: dict[int, int] = {}
        """Where in the active segment a recent write ended, by the offset that comes next.

        Readers near the end ask for such an offset, and the high watermark is nearly always one."""
        self._staged_end = loaded.log_end_offset
        self._staged_now_ms = 0
        self._staged_bytes = 0
        self._staged_buffers: list[memoryview] = []
        self._staged_batches: list[BatchSummary] = []
        self._staged_epochs: list[tuple[int, int]] = []
        self._staged_transactional: list[memoryview] = []

    @classmethod
    def open(
        cls,
        files: Files,
        directory: Path,
        config: LogConfig,
        *,
        now_ms: int,
        clean: bool,
        recovery_point: int = 0,
        log_start_offset: int = 0,
    ) -> "Log":
        """Open a log, or begin one. The offsets are those of the log dir's checkpoints.

        After a `clean` stop what is there is believed; else every batch above the recovery point is checked, and the
        log is cut at the first that is damaged. `report` says what was found.
        """
        loaded = recovery.load(
            files,
            directory,
            config,
            now_ms=now_ms,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
        )
        known = min(recovery_point, loaded.log_end_offset)
        return cls(files, directory, config, loaded, recovery_point=known)

    @property
    def size_bytes(self) -> int:
        """The size of all batches."""
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """All segments, oldest first; the last one is the active one."""
        return tuple(self._segments)

    # Appending

    def stage(self, records: memoryview, *, leader_epoch: int, now_ms: int) -> Staged:  # noqa: C901 - no calls to spare
        """Check the batch that a producer sent, patch its offset and epoch into it, and keep it for `write_staged`.

        `records` is written as it lies: it must not change until then. Raises KafkaError and stages nothing when the
        batch is bad. A batch that repeats an earlier one is not staged, and gets the earlier one's answer.
        """
        config = self.config
        if len(records) < HEADER_BYTES:
            check_produced(records, max_message_bytes=config.max_message_bytes)
        (
            _,
            batch_length,
            _,
            magic,
            crc,
            attributes,
            last_offset_delta,
            base_timestamp,
            max_timestamp,
            producer_id,
            producer_epoch,
            base_sequence,
            record_count,
        ) = HEADER.unpack_from(records)
        size = batch_length + LENGTH_PREFIX_BYTES
        if (
            size != len(records)
            or magic != MAGIC
            or size > config.max_message_bytes
            or attributes & _BROKERS_ONLY
            or attributes & CODEC_MASK > LAST_CODEC
            or record_count < 1
            or record_count != last_offset_delta + 1
            or (producer_id < 0 and attributes & TRANSACTIONAL)
            or (producer_id >= 0 and (base_sequence < 0 or producer_epoch < 0))
            or crc32c(records[CHECKED_FROM:]) != crc
        ):
            check_produced(records, max_message_bytes=config.max_message_bytes)
        if size > config.segment_bytes:
            raise RecordListTooLarge(
                f"record batch of {size} bytes is over segment.bytes, which is {config.segment_bytes}"
            )
        append_time_ms = _NO_APPEND_TIME
        if config.log_append_time:
            max_timestamp = append_time_ms = now_ms
        elif (
            max_timestamp - now_ms > config.message_timestamp_after_max_ms
            or now_ms - base_timestamp > config.message_timestamp_before_max_ms
        ):
            check_timestamps(
                read_header(records),
                now_ms=now_ms,
                before_max_ms=config.message_timestamp_before_max_ms,
                after_max_ms=config.message_timestamp_after_max_ms,
            )
        base_offset = self._staged_end
        last_offset = base_offset + last_offset_delta
        if producer_id >= 0:
            earlier = self.producers.admit(
                producer_id,
                producer_epoch,
                base_sequence,
                base_offset,
                last_offset,
                max_timestamp,
                transactional=attributes & TRANSACTIONAL != 0,
            )
            if earlier is not None:
                earlier_time = earlier.timestamp if config.log_append_time else _NO_APPEND_TIME
                return Staged(earlier.first_offset, earlier.last_offset, earlier_time, self.log_start_offset, True)
            if attributes & TRANSACTIONAL:
                self._staged_transactional.append(records)
        _OFFSET_LENGTH_EPOCH.pack_into(records, 0, base_offset, batch_length, leader_epoch)
        if append_time_ms >= 0:
            patch_log_append_time(records, append_time_ms)
        if leader_epoch != self.leader_epochs.latest:
            self._staged_epochs.append((leader_epoch, base_offset))
        self._staged_buffers.append(records)
        self._staged_batches.append((last_offset, size, max_timestamp))
        self._staged_bytes += size
        self._staged_end = last_offset + 1
        self._staged_now_ms = now_ms
        return Staged(base_offset, last_offset, append_time_ms, self.log_start_offset)

    def append_as_follower(self, records: memoryview, *, now_ms: int) -> None:
        """Append batches as the leader has them, offsets and all; one that is cut short at the end is left out."""
        for position, header in iter_batches(records):
            check_batch(records, position)
            if header.base_offset < self._staged_end:
                self.discard_staged()
                raise InvalidRecord(
                    f"leader sent a batch of offset {header.base_offset} after all below {self._staged_end}"
                )
            if header.producer_id >= 0:
                remember(self.producers, header, records[position : position + header.size])
                if header.is_transactional:
                    self._staged_transactional.append(records[position : position + header.size])
            if header.leader_epoch >= 0:
                self._staged_epochs.append((header.leader_epoch, header.base_offset))
            self._staged_buffers.append(records[position : position + header.size])
            self._staged_batches.append((header.last_offset, header.size, header.max_timestamp))
            self._staged_bytes += header.size
            self._staged_end = header.next_offset
        self._staged_now_ms = now_ms
        self.write_staged()

    def write_staged(self) -> None:
        """Write everything that was staged: one system call for each segment, which is nearly always one.

        Raises StorageError when the disk refuses; then nothing of it was appended.
        """
        batches = self._staged_batches
        if not batches:
            return
        if self._broken:
            self.discard_staged()
            raise StorageError(f"{self.directory} failed before and takes no more writes")
        segment, size_before, written_before = self._active, self._active.size, self.producers.written
        try:
            for epoch, start_offset in self._staged_epochs:
                self.leader_epochs.assign(epoch, start_offset)
            if self._must_roll(batches):
                self._write_rolling()
            else:
                segment.append(self._staged_buffers, batches, self._staged_bytes)
            if self._staged_transactional:
                self.transactions = self._with_staged_transactions()
        except OSError as error:
            self.producers.written = written_before
            self._undo_write(segment, size_before)
            raise StorageError(f"cannot append to {self.directory}: {error}") from error
        if self.producers.staged:
            self.producers.commit_staged()
        self.log_end_offset = end = self._staged_end
        boundaries = self._boundaries
        boundaries[end] = self._active.size
        if len(boundaries) > _REMEMBERED_BOUNDARIES:
            del boundaries[next(iter(boundaries))]
        self._forget_staged()

    def discard_staged(self) -> None:
        """Forget what was staged."""
        self.producers.discard_staged()
        self._staged_end = self.log_end_offset
        self._forget_staged()

    def _forget_staged(self) -> None:
        self._staged_bytes = 0
        self._staged_buffers.clear()
        self._staged_batches.clear()
        if self._staged_epochs:
            self._staged_epochs.clear()
        if self._staged_transactional:
            self._staged_transactional.clear()

    def _must_roll(self, batches: list[BatchSummary]) -> bool:
        """Say whether some of the staged batches do not belong into the active segment."""
        segment = self._active
        if segment.size + self._staged_bytes > self.config.segment_bytes:
            return True
        if not segment.can_take(batches[-1][0], len(batches)):
            return True
        first = segment.first_timestamp() if segment.size else batches[0][2]
        if first < 0:
            return self._is_over_time(segment, first)
        limit = first + self.config.roll_after_ms
        return any([max_timestamp > limit for _, _, max_timestamp in batches])  # noqa: C419 - a list is faster here

    def _is_over_time(self, segment: Segment, timestamp: int) -> bool:
        """Say whether `segment.ms` has passed between the first batch of a segment and one with this timestamp.

        As in Apache Kafka, a segment whose first batch has no timestamp is measured by our clock.
        """
        first = segment.first_timestamp()
        waited_ms = timestamp - first if first >= 0 else self._staged_now_ms - segment.created_ms
        return segment.size > 0 and waited_ms > self.config.roll_after_ms

    def _write_rolling(self) -> None:
        """Write the staged batches one after another, each into the segment where it belongs.

        Their producers are remembered anew on the way, so that the snapshot at a roll holds what is below it, exactly.
        """
        producers = self.producers
        producers.discard_staged()
        producers.written = producers.written.copy()
        for buffer, batch in zip(self._staged_buffers, self._staged_batches, strict=True):
            last_offset, size, max_timestamp = batch
            header = read_header(buffer)
            segment = self._active
            if segment.size and (
                segment.size + size > self.config.segment_bytes
                or not segment.can_take(last_offset, 1)
                or self._is_over_time(segment, max_timestamp)
            ):
                producers.commit_staged()
                segment = self._roll(header.base_offset)
            segment.append([buffer], [batch], size)
            remember(producers, header, buffer)

    def _roll(self, base_offset: int) -> Segment:
        """Make a new active segment that begins at `base_offset`."""
        self._active.seal()
        snapshot.write(self._files, snapshot.path_of(self.directory, base_offset), self.producers)
        segment = Segment(self._files, self.directory, base_offset, self.config, created_ms=self._staged_now_ms)
        segment.create()
        self._segments.append(segment)
        self._active = segment
        self._boundaries.clear()
        return segment

    def _undo_write(self, segment: Segment, size_before: int) -> None:
        """Make the log again what it was before a write that failed half-way."""
        self.discard_staged()
        self._boundaries.clear()
        self._active = segment
        try:
            while self._segments[-1] is not segment:
                self._segments.pop().remove()
            segment.cut_at(size_before, self.log_end_offset)
        except OSError:
            self._broken = True

    def _with_staged_transactions(self) -> Transactions:
        """Return the transactions as they are with what was just written, and index those that were aborted."""
        transactions = self.transactions.copy()
        for batch in self._staged_transactional:
            header = read_header(batch)
            aborted = follow_transaction(transactions, header, batch)
            if aborted is not None:
                self._segment_of(header.base_offset).txn_index.append(aborted)
        return transactions

    # Reading

    def read(self, offset: int, *, max_bytes: int, up_to: int, at_least_one: bool = True) -> FileRegion | None:
        """Return the batches from the one that holds `offset` to the last one below `up_to`, or None.

        At most `max_bytes`, which may cut the last batch short; but the first one is returned whole, or not at all when
        it is too large and `at_least_one` is not asked for. Raises OffsetOutOfRange.
        """
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise OffsetOutOfRange(offset, log_start_offset=self.log_start_offset, log_end_offset=self.log_end_offset)
        if offset >= up_to:
            return None
        segment = self._active
        position = self._boundaries.get(offset)
        if position is None:
            found = self._find(offset)
            if found is None:
                return None
            segment, position = found
        available = self._end_position(segment, up_to) - position
        if available <= 0:
            return None
        if available > max_bytes:
            first_bytes = segment.batch_size_at(position)
            if first_bytes > max_bytes and not at_least_one:
                return None
            available = max(first_bytes, max_bytes)
        return FileRegion(segment.file, position, available)

    def _find(self, offset: int) -> tuple[Segment, int] | None:
        """Return where the first batch is that ends at or after `offset`; compaction may have left a gap before it."""
        for segment in self._segments[self._segment_number(offset) :]:
            found = segment.find(offset)
            if found is not None:
                return segment, found[0]
        return None

    def _end_position(self, segment: Segment, up_to: int) -> int:
        """Return where in a segment the batches end that are below `up_to`."""
        if segment is self._active:
            if up_to >= self.log_end_offset:
                return segment.size
            position = self._boundaries.get(up_to)
            if position is not None:
                return position
        found = segment.find(up_to)
        return segment.size if found is None else found[0]

    def _segment_number(self, offset: int) -> int:
        return max(0, bisect_right(self._segments, offset, key=_BASE_OFFSET) - 1)

    def _segment_of(self, offset: int) -> Segment:
        return self._segments[self._segment_number(offset)]

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the largest epoch at or below `epoch`, and the offset where it ends; see `LeaderEpochs.end_offset`."""
        return self.leader_epochs.end_offset(epoch, log_end_offset=self.log_end_offset)

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the offset below which no transaction is open: how far read_committed readers see."""
        unstable = self.transactions.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(unstable, high_watermark)

    # Life

    def flush(self) -> None:
        """Return when all that is written is on the disk."""
        end = self.log_end_offset
        if self.recovery_point >= end:
            return
        for segment in self._segments[self._segment_number(self.recovery_point) :]:
            segment.sync()
        self.leader_epochs.sync()
        self.recovery_point = end

    def close(self) -> None:
        """Flush and let go of all files, such that the next start may call this a clean stop. Raises StorageError."""
        if self._broken:
            raise StorageError(f"{self.directory} failed before; its next start must check it")
        try:
            self.flush()
            snapshot.write(self._files, snapshot.path_of(self.directory, self.log_end_offset), self.producers)
            for segment in self._segments:
                segment.close()
        except OSError as error:
            raise StorageError(f"cannot close {self.directory}: {error}") from error
