"""fsync away from the loop: one at a time per partition, shared by all who wait for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.model.log_events import EventLog

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from concurrent.futures import Executor

    from highwater.broker.partition import Partition
    from highwater.storage.flush import Flush

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
        partition.pins += 1
        flush = partition.log.start_flush()
        future = self._loop.run_in_executor(self._executor, flush.run)
        future.add_done_callback(lambda done: self._done(partition, flush, done))

    def _done(self, partition: Partition, flush: Flush, done: Future[None]) -> None:
        self._under_way.discard(partition)
        partition.pins -= 1
        partition.log.finish_flush(flush)
        error = done.exception()
        if error is not None:
            # After a failed fsync the kernel may have dropped the pages: the data must not be called durable.
            events.error("fsync_failed", partition=partition.name, reason=repr(error))
            return
        self.flushes += 1
        partition.synced()
        if partition.wants_sync:
            self.sync(partition)
