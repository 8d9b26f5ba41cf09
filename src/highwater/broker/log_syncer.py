"""fsync away from the loop: one at a time per partition, shared by all who wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.model.log_events import EventLog

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from concurrent.futures import Executor

    from highwater.broker.partition import Partition
    from highwater.storage.flush import Flush
    from highwater.storage.log import Log

events = EventLog("broker")


class LogSyncer:
    """Runs `flush` of a partition's log on a thread and tells the partition when it is done."""

    __slots__ = ("_executor", "_loop", "_under_way", "flushes")

    def __init__(self, loop: AbstractEventLoop, executor: Executor) -> None:
        self._loop = loop
        self._executor = executor
        self._under_way: set[Partition] = set()
        self.flushes = 0

    def sync(self, partition: Partition) -> None:
        """Make what is written durable; a call while one is under way is served by the next round."""
        if partition in self._under_way:
            return
        self._under_way.add(partition)
        log = partition.log
        flush = log.start_flush()
        future = self._loop.run_in_executor(self._executor, flush.run)
        future.add_done_callback(lambda done: self._done(partition, log, flush, done))

    def _done(self, partition: Partition, log: Log, flush: Flush, done: Future[None]) -> None:
        self._under_way.discard(partition)
        log.finish_flush(flush)
        error = done.exception()
        has_moved = partition.log is not log  # to another log dir: what became of the old files does not matter
        if error is not None and not has_moved:
            # After a failed fsync the kernel may have dropped the pages: the data must not be called durable.
            events.error("fsync_failed", partition=partition.name, reason=repr(error))
            return
        self.flushes += 1
        partition.synced()
        if partition.wants_sync:
            self.sync(partition)
