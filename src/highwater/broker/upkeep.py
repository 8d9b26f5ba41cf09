"""What time does to logs: retention, checkpoints, flushes that are due.

Each kind of work is a task of its own that sleeps between rounds. A round looks at a bounded number of logs before the
loop goes on, and what waits for the disk runs on a thread.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from highwater.config.settings import log as log_settings
from highwater.config.settings import replication
from highwater.model.errors import StorageError
from highwater.model.log_events import EventLog
from highwater.storage import checkpoints

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import AsyncIterator, Awaitable, Callable
    from concurrent.futures import Executor

    from highwater.broker.appends import Appends
    from highwater.broker.partition import Partition
    from highwater.broker.partitions import Partitions
    from highwater.broker.replicas import Replicas
    from highwater.config.broker_config import BrokerConfig
    from highwater.model.ids import TopicPartition
    from highwater.storage.segment import Segment

events = EventLog("broker")

LOGS_PER_BREATH: Final = 200
FLUSH_CHECK_MS: Final = 1000
"""How often to look for logs whose `flush.ms` is over, unless the setting says otherwise."""


class Upkeep:
    """Runs the periodic work from `start` to `stop`."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        executor: Executor,
        config: BrokerConfig,
        *,
        partitions: Partitions,
        replicas: Replicas,
        appends: Appends,
        now_ms: Callable[[], int],
    ) -> None:
        self._loop = loop
        self._executor = executor
        self._config = config
        self._partitions = partitions
        self._replicas = replicas
        self._appends = appends
        self._unflushed_since_ms: dict[Partition, int] = {}
        self._written: dict[tuple[object, str], dict[TopicPartition, int]] = {}
        """What each checkpoint file says, so that an idle broker writes none."""
        self._now_ms = now_ms
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin."""
        config = self._config
        for interval_ms, work in (
            (config[log_settings.LOG_RETENTION_CHECK_INTERVAL_MS], self.retain),
            (config[log_settings.LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS], self.checkpoint_recovery_points),
            (config[log_settings.LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS], self.checkpoint_log_starts),
            (config[replication.REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS], self.checkpoint_high_watermarks),
            (min(config[log_settings.LOG_FLUSH_SCHEDULER_INTERVAL_MS], FLUSH_CHECK_MS), self.flush_due),
        ):
            self._tasks.append(self._loop.create_task(self._every(interval_ms, work)))

    def stop(self) -> None:
        """End; what is under way on a thread finishes by itself."""
        for task in self._tasks:
            task.cancel()

    async def _every(self, interval_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(interval_ms / 1000)
            try:
                await work()
            except (StorageError, OSError) as error:
                events.error("upkeep_failed", work=getattr(work, "__name__", "?"), reason=str(error))

    async def retain(self) -> None:
        """Delete segments that are too old or too many, and producers that have been silent too long."""
        async for partition in self._some_at_a_time():
            log, now_ms = partition.log, self._now_ms()
            try:
                removed = log.apply_retention(now_ms, high_watermark=partition.high_watermark)
                log.producers.remove_expired(now_ms, log.config.producer_id_expiration_ms)
            except StorageError as error:
                events.error("retention_failed", partition=partition.name, reason=str(error))
                continue
            if removed:
                events.info("segments_deleted", partition=partition.name, segments=len(removed))
                self._loop.call_later(log.config.file_delete_delay_ms / 1000, self._remove_files, removed)

    def _remove_files(self, segments: list[Segment]) -> None:
        """Remove files on a thread: a large file takes the file system a while."""
        for segment in segments:
            self._loop.run_in_executor(self._executor, segment.remove)

    async def flush_due(self) -> None:
        """Flush the logs whose oldest unflushed record is older than `flush.ms`."""
        now_ms = self._now_ms()
        unflushed = self._appends.unflushed
        for partition in list(unflushed):
            since_ms = self._unflushed_since_ms.setdefault(partition, now_ms)
            if now_ms - since_ms >= partition.log.config.flush_ms:
                del unflushed[partition], self._unflushed_since_ms[partition]
                await self._flush(partition)

    async def checkpoint_recovery_points(self) -> None:
        """Flush sealed segments, then say how far each log is on the disk: recovery starts there."""
        async for partition in self._some_at_a_time():
            if partition.log.has_unflushed_sealed_segments:
                await self._flush(partition)
        await self._checkpoint(checkpoints.RECOVERY_POINTS, lambda partition: partition.log.recovery_point)

    async def _flush(self, partition: Partition) -> None:
        flush = partition.log.start_flush()
        try:
            with partition.pinned():
                await self._loop.run_in_executor(self._executor, flush.run)
        finally:
            partition.log.finish_flush(flush)

    async def checkpoint_log_starts(self) -> None:
        """Say where each log starts that starts later than its first segment."""
        await self._checkpoint(checkpoints.LOG_START_OFFSETS, lambda partition: partition.log.log_start_offset)

    async def checkpoint_high_watermarks(self) -> None:
        """Say what was committed."""
        await self._checkpoint(checkpoints.HIGH_WATERMARKS, lambda partition: partition.high_watermark)

    async def checkpoint_all(self) -> None:
        """Write every checkpoint."""
        await self.checkpoint_recovery_points()
        await self.checkpoint_log_starts()
        await self.checkpoint_high_watermarks()

    async def _checkpoint(self, file_name: str, read: Callable[[Partition], int]) -> None:
        by_dir: dict[object, dict[TopicPartition, int]] = {log_dir.path: {} for log_dir in self._replicas.log_dirs}
        async for partition in self._some_at_a_time():
            by_dir[partition.log.directory.parent][partition.name] = read(partition)
        for log_dir in self._replicas.log_dirs:
            if not log_dir.is_online:
                continue
            offsets = by_dir[log_dir.path]
            if self._written.get((log_dir.path, file_name)) != offsets:
                try:
                    await self._loop.run_in_executor(self._executor, log_dir.write_checkpoint, file_name, offsets)
                except StorageError as error:
                    events.error("checkpoint_not_written", reason=str(error))
                else:
                    self._written[log_dir.path, file_name] = offsets

    async def _some_at_a_time(self) -> AsyncIterator[Partition]:
        for number, partition in enumerate(self._partitions, start=1):
            yield partition
            if number % LOGS_PER_BREATH == 0:
                await asyncio.sleep(0)
