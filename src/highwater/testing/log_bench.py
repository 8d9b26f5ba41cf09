"""A log to try things on, and short words for what one does with it."""

from pathlib import Path
from typing import Final

from highwater.protocol.records.batch import iter_batches
from highwater.protocol.records.compression import Codec
from highwater.protocol.records.control import Marker, MarkerType, build_marker
from highwater.protocol.records.record import Record, build_batch, read_records
from highwater.storage.compaction.compaction import Compaction
from highwater.storage.files import Files, OsFiles
from highwater.storage.log import Log, Staged
from highwater.storage.log_config import LogConfig

NOW_MS: Final = 1_700_000_000_000
"""What the clock shows, unless it is set otherwise."""


def a_batch(
    *values: bytes | None,
    keys: list[bytes | None] | None = None,
    timestamps: list[int] | None = None,
    producer_id: int = -1,
    epoch: int = 0,
    sequence: int = 0,
    transactional: bool = False,
    codec: Codec = Codec.NONE,
) -> bytearray:
    """Return a batch of one record for each value, as a producer sends it."""
    times = timestamps or [NOW_MS] * len(values)
    names = keys or [b"key"] * len(values)
    is_idempotent = producer_id >= 0
    return build_batch(
        [Record(number, times[number], names[number], value) for number, value in enumerate(values)],
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch if is_idempotent else -1,
        base_sequence=sequence if is_idempotent else -1,
        is_transactional=transactional,
    )


class LogBench:
    """One log, which can be opened again and again."""

    def __init__(
        self, folder: Path, config: LogConfig | None = None, files: Files | None = None, *, clean: bool = True
    ) -> None:
        self.folder = folder
        self.files: Files = files or OsFiles()
        self.now_ms = NOW_MS
        self.config = config or LogConfig()
        self.log = self.open(clean=clean)

    def open(
        self,
        *,
        clean: bool = True,
        recovery_point: int = 0,
        log_start_offset: int = 0,
        first_dirty_offset: int = 0,
    ) -> Log:
        """Open the log; what was open before is left as a killed process leaves it."""
        self.log = Log.open(
            self.files,
            self.folder,
            self.config,
            now_ms=self.now_ms,
            clean=clean,
            recovery_point=recovery_point,
            log_start_offset=log_start_offset,
            first_dirty_offset=first_dirty_offset,
        )
        return self.log

    def append(self, batch: bytearray, *, leader_epoch: int = 0) -> Staged:
        """Stage one batch and write it."""
        staged = self.log.stage(memoryview(batch), leader_epoch=leader_epoch, now_ms=self.now_ms)
        self.log.write_staged()
        return staged

    def append_values(self, *values: bytes | None) -> Staged:
        """Append one batch of these values."""
        return self.append(a_batch(*values))

    def end_transaction(
        self, producer_id: int, *, commit: bool, epoch: int = 0, coordinator_epoch: int = 0, leader_epoch: int = 0
    ) -> Staged:
        """Append the marker that ends a producer's transaction."""
        marker = Marker(MarkerType.COMMIT if commit else MarkerType.ABORT, coordinator_epoch)
        batch = build_marker(marker, producer_id=producer_id, producer_epoch=epoch, timestamp_ms=self.now_ms)
        staged = self.log.stage_from_coordinator(memoryview(batch), leader_epoch=leader_epoch, now_ms=self.now_ms)
        self.log.write_staged()
        return staged

    def compact(self, *, memory_bytes: int = 1_000_000) -> Compaction | None:
        """Carry out one round of compaction, whether it is due or not; None when there is nothing to work on."""
        plan = self.log.plan_compaction(
            high_watermark=self.log.log_end_offset, now_ms=self.now_ms, memory_bytes=memory_bytes
        )
        if not plan.segments:
            return None
        compaction = Compaction(self.files, plan, pace=lambda _: None)
        for group in compaction.groups():
            replaced = self.log.replace_segments(group)
            assert replaced is not None, "nobody else changes this log"
            self.log.sync_names()
            for segment in replaced:
                segment.remove()
        self.log.finish_compaction(compaction.end_offset)
        return compaction

    def records(self, offset: int | None = None, *, up_to: int | None = None) -> list[Record]:
        """Read all records from an offset on, one batch at a time; transaction markers are left out."""
        offset = self.log.log_start_offset if offset is None else offset
        up_to = self.log.log_end_offset if up_to is None else up_to
        found: list[Record] = []
        while (region := self.log.read(offset, max_bytes=1, up_to=up_to)) is not None:
            ((position, header),) = iter_batches(data := region.read())
            if not header.is_control:
                found += [record for record in read_records(data[position:]) if record.offset >= offset]
            offset = header.next_offset
        return found

    def values(self, offset: int | None = None, *, up_to: int | None = None) -> list[bytes | None]:
        """Read the values of everything from an offset on."""
        return [record.value for record in self.records(offset, up_to=up_to)]
