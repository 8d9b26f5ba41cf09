"""One partition's log on disk.

Appends come in two steps, so that all that arrived together is written together: `stage` checks a batch and gives it
its offset, `write_staged` writes everything that was staged. Readers see a batch when it is written, never before.
"""

from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from typing import Final

from crc32c import crc32c

from highwater.model.errors import KafkaError, StorageError
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
    BatchHeader,
    HeaderFields,
    iter_batches,
    patch_log_append_time,
    patch_offset_and_epoch,
    read_header,
)
from highwater.protocol.records.contents import check_keys, check_record_timestamps, read_produced_records
from highwater.protocol.records.errors import CorruptMessage, InvalidRecord
from highwater.protocol.records.validate import LAST_CODEC, check_batch, check_produced, check_timestamps
from highwater.storage import recovery
from highwater.storage.disk_health import DiskHealth
from highwater.storage.errors import RecordListTooLarge
from highwater.storage.files import Files
from highwater.storage.log_config import LogConfig
from highwater.storage.replay import follow_transaction, marker_of, remember
from highwater.storage.segment import BatchSummary, Segment
from highwater.storage.stored_log import StoredLog
from highwater.storage.transactions import Transactions

_OFFSET_LENGTH_EPOCH: Final = Struct(">qii")
_BROKERS_ONLY: Final = LOG_APPEND_TIME | CONTROL | DELETE_HORIZON
_NO_APPEND_TIME: Final = -1


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


class Log(StoredLog):
    """The log of one partition replica."""

    __slots__ = (
        "_staged_batches",
        "_staged_buffers",
        "_staged_bytes",
        "_staged_end",
        "_staged_epochs",
        "_staged_now_ms",
        "_staged_transactional",
    )

    def __init__(
        self, files: Files, directory: Path, config: LogConfig, loaded: recovery.LoadedLog, health: DiskHealth
    ) -> None:
        super().__init__(files, directory, config, loaded, health)
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
        first_dirty_offset: int = 0,
        health: DiskHealth | None = None,
    ) -> "Log":
        """Open a log, or begin one. The offsets are those of the log dir's checkpoints.

        After a `clean` stop what is there is believed; else every batch above the recovery point is checked, and the
        log is cut at the first that is damaged. `report` says what was found. `health` is that of the log dir's disk.
        """
        loaded = recovery.load(
            files,
            directory,
            config,
            now_ms=now_ms,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            first_dirty_offset=first_dirty_offset,
        )
        return cls(files, directory, config, loaded, health or DiskHealth())

    def stage(  # noqa: C901 - no calls to spare
        self, records: memoryview, *, leader_epoch: int, now_ms: int, has_keys: bool = False
    ) -> Staged:
        """Check the batch that a producer sent, patch its offset and epoch into it, and keep it for `write_staged`.

        `records` is written as it lies: it must not change until then. Raises KafkaError and stages nothing when it is
        bad. What repeats an earlier batch is not staged, and gets its answer. `has_keys`: no need to look for them.
        """
        limits = self.limits
        if len(records) < HEADER_BYTES:
            check_produced(records, max_message_bytes=limits.max_message_bytes)
        header: HeaderFields = HEADER.unpack_from(records)
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
        ) = header
        size = batch_length + LENGTH_PREFIX_BYTES
        if (
            size != len(records)
            or magic != MAGIC
            or size > limits.max_message_bytes
            or attributes & _BROKERS_ONLY
            or attributes & CODEC_MASK > LAST_CODEC
            or record_count < 1
            or record_count != last_offset_delta + 1
            or (producer_id < 0 and attributes & TRANSACTIONAL)
            or (producer_id >= 0 and (base_sequence < 0 or producer_epoch < 0))
            or crc32c(records[CHECKED_FROM:]) != crc
        ):
            check_produced(records, max_message_bytes=limits.max_message_bytes)
        if size > limits.segment_bytes:
            self._refuse_size(size)
        if limits.compact and not has_keys:
            check_keys(read_produced_records(records))
        append_time_ms = _NO_APPEND_TIME
        if limits.log_append_time:
            max_timestamp = append_time_ms = now_ms
        elif (
            max_timestamp - now_ms > limits.timestamp_after_max_ms
            or now_ms - base_timestamp > limits.timestamp_before_max_ms
        ):
            self._refuse_timestamps(records, now_ms)
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
                attributes & TRANSACTIONAL != 0,
            )
            if earlier is not None:
                earlier_time = earlier.timestamp if limits.log_append_time else _NO_APPEND_TIME
                return Staged(earlier.first_offset, earlier.last_offset, earlier_time, self.log_start_offset, True)
            if attributes & TRANSACTIONAL:
                self._staged_transactional.append(records)
        _OFFSET_LENGTH_EPOCH.pack_into(records, 0, base_offset, batch_length, leader_epoch)
        if append_time_ms >= 0:
            patch_log_append_time(records, append_time_ms)
        if leader_epoch != self.leader_epochs.recorded:
            self._staged_epochs.append((leader_epoch, base_offset))
        self._staged_buffers.append(records)
        self._staged_batches.append((last_offset, size, max_timestamp))
        self._staged_bytes += size
        self._staged_end = last_offset + 1
        self._staged_now_ms = now_ms
        return Staged(base_offset, last_offset, append_time_ms, self.log_start_offset)

    def _refuse_size(self, size: int) -> None:
        limit = self.limits.segment_bytes
        raise RecordListTooLarge(f"record batch of {size} bytes is over segment.bytes, which is {limit}")

    def _refuse_timestamps(self, records: memoryview, now_ms: int) -> None:
        """Raise for a batch whose header states a timestamp out of bounds, with the record at fault if one is."""
        before_max_ms = self.config.message_timestamp_before_max_ms
        after_max_ms = self.config.message_timestamp_after_max_ms
        contents = read_produced_records(records)
        check_record_timestamps(contents, now_ms=now_ms, before_max_ms=before_max_ms, after_max_ms=after_max_ms)
        header = read_header(records)
        check_timestamps(header, now_ms=now_ms, before_max_ms=before_max_ms, after_max_ms=after_max_ms)

    def stage_from_coordinator(self, records: memoryview, *, leader_epoch: int, now_ms: int) -> Staged:
        """Stage what a coordinator of this broker made: a marker, or records of a transaction without sequences.

        Raises KafkaError and stages nothing when the producer or the coordinator has been replaced by a newer one.
        """
        header = check_batch(records)
        assert header.size == len(records), "one batch at a time"
        if header.is_control:
            marker = marker_of(records)
            assert marker is not None, "coordinators write control batches with markers"
            self.producers.check_marker(header.producer_id, header.producer_epoch, marker.coordinator_epoch)
        elif header.producer_id >= 0:
            self.producers.check_epoch(header.producer_id, header.producer_epoch)
        base_offset = self._staged_end
        patch_offset_and_epoch(records, base_offset, leader_epoch)
        self._keep(header._replace(base_offset=base_offset, leader_epoch=leader_epoch), records)
        self._staged_now_ms = now_ms
        return Staged(base_offset, self._staged_end - 1, _NO_APPEND_TIME, self.log_start_offset)

    def append_as_follower(self, records: memoryview, *, now_ms: int) -> None:
        """Append batches as the leader has them, offsets and all; one that is cut short at the end is left out.

        What comes before a damaged batch is appended; the next fetch begins with it. Raises KafkaError and appends
        nothing when the first batch is damaged or one does not follow what is there.
        """
        assert not self._staged_batches, "a follower stages nothing"
        batches = list(_undamaged(records, self.log_end_offset))
        if batches and self._begins_inside(batches[0][0]):
            log_start_offset = self.log_start_offset
            self.restart_at(batches[0][0].base_offset, now_ms=now_ms)
            self.log_start_offset = log_start_offset
        end = self.log_end_offset
        for header, _ in batches:
            if header.base_offset < end:
                raise InvalidRecord(f"the leader sent offset {header.base_offset} where {end} comes next")
            end = header.next_offset
        for header, position in batches:
            self._keep(header, records[position : position + header.size])
        self._staged_now_ms = now_ms
        self.write_staged()

    def _begins_inside(self, header: BatchHeader) -> bool:
        """Say whether this empty log begins in the middle of a batch: DeleteRecords may cut there on the leader."""
        is_empty = self.log_start_offset == self.log_end_offset
        return is_empty and header.base_offset < self.log_end_offset <= header.last_offset

    def _keep(self, header: BatchHeader, batch: memoryview) -> None:
        """Stage a batch that is known to be good and has its offset."""
        remember(self.producers, header, batch)
        if header.is_transactional:
            self._staged_transactional.append(batch)
        epochs = self.leader_epochs
        if header.leader_epoch >= 0 and not header.leader_epoch == epochs.latest == epochs.recorded:
            self._staged_epochs.append((header.leader_epoch, header.base_offset))
        self._staged_buffers.append(batch)
        self._staged_batches.append((header.last_offset, header.size, header.max_timestamp))
        self._staged_bytes += header.size
        self._staged_end = header.next_offset

    def write_staged(self) -> None:
        """Write everything that was staged: one system call for each segment, which is nearly always one.

        Raises StorageError when the disk refuses; then nothing of it was appended.
        """
        batches = self._staged_batches
        if not batches:
            return
        if self._is_broken:
            self.discard_staged()
            raise StorageError(f"{self.directory} failed before and takes no more writes")
        producers, transactions = self.producers, self.transactions
        segment, size_before, written_before = self.segments.active, self.segments.active.size, producers.written
        try:
            if self._must_roll(segment, batches):
                self._write_rolling()
            else:
                segment.append(self._staged_buffers, batches, self._staged_bytes)
            if self._staged_transactional:
                transactions = self._with_staged_transactions()
            if self._staged_epochs:
                # Last: an epoch whose batches were not written would hide where the one before it began.
                self.leader_epochs.assign_all(self._staged_epochs)
        except (OSError, StorageError) as error:
            if isinstance(error, OSError):
                self.health.noticed(error)
            producers.written = written_before
            self._undo_write(segment, size_before)
            raise StorageError(f"cannot append to {self.directory}: {error}") from error
        if producers.staged:
            producers.commit_staged()
        self.transactions = transactions
        self.log_end_offset = self._staged_end
        self.segments.remember_end(self._staged_end)
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

    def _must_roll(self, segment: Segment, batches: list[BatchSummary]) -> bool:
        """Say whether some of the staged batches do not belong into the active segment."""
        limits = self.limits
        if segment.size + self._staged_bytes > limits.segment_bytes or not segment.can_take(
            batches[-1][0], len(batches)
        ):
            return True
        first = segment.first_timestamp() if segment.size else batches[0][2]
        if first < 0:
            return self._is_over_time(segment, first)
        limit = first + limits.roll_after_ms
        for _, _, max_timestamp in batches:  # noqa: SIM110 - a generator costs on this path
            if max_timestamp > limit:
                return True
        return False

    def _is_over_time(self, segment: Segment, timestamp: int) -> bool:
        """Say whether `segment.ms` has passed between the first batch of a segment and one with this timestamp.

        As in Apache Kafka, a segment whose first batch has no timestamp is measured by our clock.
        """
        first = segment.first_timestamp()
        waited_ms = timestamp - first if first >= 0 else self._staged_now_ms - segment.created_ms
        return segment.size > 0 and waited_ms > self.limits.roll_after_ms

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
            segment = self.segments.active
            if segment.size and (
                segment.size + size > self.limits.segment_bytes
                or not segment.can_take(last_offset, 1)
                or self._is_over_time(segment, max_timestamp)
            ):
                producers.commit_staged()
                segment = self._roll(header.base_offset, self._staged_now_ms)
            segment.append([buffer], [batch], size)
            remember(producers, header, buffer)

    def _undo_write(self, segment: Segment, size_before: int) -> None:
        """Make the log again what it was before a write that failed half-way."""
        self.discard_staged()
        try:
            if segment is not self.segments.active:
                self._remove_snapshots_after(self.log_end_offset)
                self.segments.remove_after(segment)
            segment.cut_at(size_before, self.log_end_offset)
        except (OSError, StorageError):
            self._is_broken = True

    def _with_staged_transactions(self) -> Transactions:
        """Return the transactions as they are with what was just written, and index those that were aborted."""
        transactions = self.transactions.copy()
        for batch in self._staged_transactional:
            header = read_header(batch)
            aborted = follow_transaction(transactions, header, batch)
            if aborted is not None:
                self.segments.since(header.base_offset)[0].txn_index.append(aborted)
        return transactions

    def _set_end(self, offset: int) -> None:
        super()._set_end(offset)
        self.discard_staged()


def _undamaged(records: memoryview, next_offset: int) -> Iterator[tuple[BatchHeader, int]]:
    """Yield header and position of the batches before the first that is damaged; if that is the first, raise."""
    position = 0
    try:
        for position, _ in iter_batches(records):
            header = check_batch(records, position)
            yield header, position
            next_offset = header.next_offset
    except KafkaError as error:
        if position == 0:
            raise CorruptMessage(f"a damaged batch at offset {next_offset}: {error.message}") from error
