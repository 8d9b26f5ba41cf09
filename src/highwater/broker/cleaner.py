"""Compaction of this broker's logs: which one is next, a worker process for it, and its results put in place."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from highwater.config.settings import compaction as settings
from highwater.model.errors import KafkaError, StorageError
from highwater.model.log_events import EventLog
from highwater.storage import checkpoints
from highwater.storage.compaction.messages import Failed, Finished, Job, Report
from highwater.storage.compaction.plan import CompactedGroup, CompactionPlan

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Awaitable, Callable
    from concurrent.futures import Executor

    from highwater.broker.compaction_worker import CompactionWorker
    from highwater.broker.partition import Partition
    from highwater.broker.partitions import Partitions
    from highwater.broker.replicas import Replicas
    from highwater.config.broker_config import BrokerConfig
    from highwater.model.ids import TopicPartition
    from highwater.storage.segment import Segment

events = EventLog("broker")

LOGS_PER_BREATH: Final = 100
LOOK_AFTER_S: Final = 1.0
"""How often to see whether what a worker does is still wanted, and whether it gets on."""
INSISTS_S: Final = 600.0
"""How long compaction does not give way after it has starved; then it tries again whether it need not."""


class Cleaner:
    """Compacts the log with the largest part of news, again and again, from `start` to `stop`."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        executor: Executor,
        config: BrokerConfig,
        *,
        partitions: Partitions,
        replicas: Replicas,
        now_ms: Callable[[], int],
        start_worker: Callable[[Job], Awaitable[CompactionWorker]],
    ) -> None:
        self._loop = loop
        self._start_worker = start_worker
        self._executor = executor
        self._config = config
        self._partitions = partitions
        self._replicas = replicas
        self._now_ms = now_ms
        self._workers = config[settings.LOG_CLEANER_THREADS] if config[settings.LOG_CLEANER_ENABLE] else 0
        self._under_way: set[Partition] = set()
        self._tasks: list[asyncio.Task[None]] = []
        self._insists_until = 0.0
        """Until when, on the loop's clock, compaction takes its part of a processor, because it got none."""
        self.rounds = 0
        self.uncleanable: dict[TopicPartition, str] = {}
        """Logs that could not be compacted, and why; they are left alone until the next start."""

    def start(self) -> None:
        """Begin."""
        self._tasks = [self._loop.create_task(self._run()) for _ in range(self._workers)]

    async def stop(self) -> None:
        """End; workers that are under way are killed, and what they have written is not used."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _run(self) -> None:
        while True:
            found = await self._filthiest()
            if found is None:
                await asyncio.sleep(self._config[settings.LOG_CLEANER_BACKOFF_MS] / 1000)
                continue
            partition, plan = found
            self._under_way.add(partition)
            try:
                with partition.pinned():
                    await self._compact(partition, plan)
            except (KafkaError, OSError) as error:
                self._give_up(partition, str(error))
            finally:
                self._under_way.discard(partition)

    async def _filthiest(self) -> tuple[Partition, CompactionPlan] | None:
        """Return the log that is due and of which the largest part is new, with its plan."""
        best: tuple[Partition, CompactionPlan] | None = None
        memory_bytes = self._config[settings.LOG_CLEANER_DEDUPE_BUFFER_SIZE] // self._workers
        for number, partition in enumerate(self._partitions, start=1):
            if number % LOGS_PER_BREATH == 0:
                await asyncio.sleep(0)
            plan = self._plan(partition, memory_bytes)
            if plan is not None and (best is None or plan.dirty_ratio > best[1].dirty_ratio):
                best = partition, plan
        return best

    def _plan(self, partition: Partition, memory_bytes: int) -> CompactionPlan | None:
        log = partition.log
        if not log.config.compact or len(log.segments) < 2 or partition in self._under_way:
            return None
        if partition.name in self.uncleanable:
            return None
        try:
            plan = log.plan_compaction(
                high_watermark=partition.high_watermark, now_ms=self._now_ms(), memory_bytes=memory_bytes
            )
        except KafkaError as error:
            self._give_up(partition, str(error))
            return None
        return plan if plan.is_due else None

    # One round

    async def _compact(self, partition: Partition, plan: CompactionPlan) -> None:
        pace, left = self._pace, plan.segments
        gives_way = self._loop.time() >= self._insists_until
        worker = await self._start_worker(Job(plan, pace, gives_way))

        def is_in_vain() -> bool:
            """Say whether the next round had better look anew.

            That is when another pace is asked for, when this worker starves, or when retention or truncation took what
            it is at work on.
            """
            return self._pace != pace or (gives_way and self._starves(worker)) or not partition.log.has_unchanged(left)

        try:
            while (report := await _next_report(worker, is_in_vain)) is not None:
                if isinstance(report, Failed) and is_in_vain():
                    return
                if not await self._take(partition, report):
                    return
                if isinstance(report, CompactedGroup):  # of those before it, some may have stayed as they were
                    done = report.replaced[-1].base_offset
                    left = tuple(segment for segment in left if segment.base_offset > done)
                worker.go_on()
        finally:
            await worker.close()

    @property
    def _pace(self) -> float:
        return max(1.0, self._config[settings.LOG_CLEANER_IO_MAX_BYTES_PER_SECOND] / self._workers)

    def _starves(self, worker: CompactionWorker) -> bool:
        """Say whether a worker that gives way to others has to, all the time; then the next ones do not."""
        if not worker.is_starving():
            return False
        self._insists_until = self._loop.time() + INSISTS_S
        events.warning("compaction_starves", insists_s=INSISTS_S)
        return True

    async def _take(self, partition: Partition, report: Report) -> bool:
        """Take the worker's next report; say whether it shall go on."""
        match report:
            case CompactedGroup():
                return await self._put_in_place(partition, report)
            case Finished():
                await self._finish(partition, report)
            case Failed():
                raise StorageError(report.reason)
        return False

    async def _put_in_place(self, partition: Partition, group: CompactedGroup) -> bool:
        """Rename in one go, so that every reader finds the old segments or the new one; sync on a thread."""
        if self._partitions.get(*partition.name) is not partition:
            return False
        log = partition.log
        replaced = log.replace_segments(group)
        if replaced is None:
            return False
        await self._loop.run_in_executor(self._executor, log.sync_names)
        self._loop.call_later(log.config.file_delete_delay_ms / 1000, self._remove_files, replaced)
        return True

    def _remove_files(self, segments: list[Segment]) -> None:
        for segment in segments:
            self._loop.run_in_executor(self._executor, segment.remove)

    async def _finish(self, partition: Partition, done: Finished) -> None:
        log = partition.log
        log.finish_compaction(done.end_offset)
        self.rounds += 1
        events.info(
            "log_compacted", partition=partition.name, records=done.records_read, records_kept=done.records_kept
        )
        log_dir = self._replicas.log_dir_of(log)
        offsets = {
            other.name: other.log.first_dirty_offset
            for other in self._partitions
            if other.log.config.compact and other.log.directory.parent == log_dir.path
        }
        await self._loop.run_in_executor(self._executor, log_dir.write_checkpoint, checkpoints.CLEANED_OFFSETS, offsets)

    def _give_up(self, partition: Partition, reason: str) -> None:
        if self._partitions.get(*partition.name) is partition:
            self.uncleanable[partition.name] = reason
            events.error("log_cannot_be_compacted", partition=partition.name, reason=reason)


async def _next_report(worker: CompactionWorker, is_in_vain: Callable[[], bool]) -> Report | None:
    """Return the worker's next report; None when it works in vain by now."""
    report = asyncio.ensure_future(worker.report())
    try:
        while not (await asyncio.wait((report,), timeout=LOOK_AFTER_S))[0]:
            if is_in_vain():
                return None
        return report.result()
    finally:
        report.cancel()
