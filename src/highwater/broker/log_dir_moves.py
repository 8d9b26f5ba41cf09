"""Partitions on their way from one log dir of this broker to another (KIP-113).

A copy grows in the new log dir, on a thread, while the old log serves. Once it has caught up and is on the disk, it
takes the old one's place between two turns of the loop. A move that a stop interrupts begins anew at the next start.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from highwater.config.settings import replication
from highwater.model.errors import ErrorCode, KafkaError, StorageError
from highwater.model.log_events import EventLog
from highwater.storage.errors import OffsetOutOfRange

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    from highwater.broker.partition import Partition
    from highwater.broker.partitions import Partitions
    from highwater.config.broker_config import BrokerConfig
    from highwater.model.ids import TopicPartition
    from highwater.storage.file_region import FileRegion
    from highwater.storage.log import Log
    from highwater.storage.log_dir import LogDir

events = EventLog("broker")

CHUNK_BYTES: Final = 1024 * 1024
LAST_BYTES: Final = 256 * 1024
"""So much may be left to be copied in the moment of the exchange, while nothing else runs."""
_PAUSE_S: Final = 0.05
_EVERYTHING: Final = 2**31 - 1


class Move:
    """One partition under way."""

    __slots__ = ("copy", "copying", "partition", "target", "task")

    def __init__(self, partition: Partition, target: LogDir) -> None:
        self.partition = partition
        self.target = target
        self.copy: Log | None = None
        self.copying: asyncio.Future[None] | None = None
        self.task: asyncio.Task[None] | None = None

    @property
    def lag(self) -> int:
        """How many offsets the copy has yet to go."""
        end = self.partition.log.log_end_offset
        return end if self.copy is None else max(0, end - self.copy.log_end_offset)


class LogDirMoves:
    """Begins moves, and knows those under way."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        executor: Executor,
        config: BrokerConfig,
        *,
        log_dirs: Sequence[LogDir],
        partitions: Partitions,
        now_ms: Callable[[], int],
    ) -> None:
        self._loop = loop
        self._executor = executor
        self._config = config
        self._log_dirs = log_dirs
        self._partitions = partitions
        self._now_ms = now_ms
        self._under_way: dict[TopicPartition, Move] = {}
        self._preferred: dict[TopicPartition, LogDir] = {}
        self._may_copy_at = 0.0
        self._is_closed = False

    # Asked for ------------------------------------------------------------------------------------------------------

    def ask(self, name: TopicPartition, path: str) -> None:
        """Move a partition to a log dir, or have it begun there if it comes to this broker. Raises KafkaError."""
        target = next((log_dir for log_dir in self._log_dirs if str(log_dir.path) == path), None)
        if target is None:
            raise KafkaError(f"{path} is not a log dir of this broker", code=ErrorCode.LOG_DIR_NOT_FOUND)
        if not target.is_online:
            raise StorageError(f"the disk of log dir {path} has failed")
        if self._partitions.is_offline(*name):
            raise StorageError(f"the log dir that holds {name} has failed")
        partition = self._partitions.get(*name)
        if partition is None:
            self._preferred[name] = target
            raise KafkaError(f"{name} is not here yet", code=ErrorCode.REPLICA_NOT_AVAILABLE)
        under_way = self._under_way.get(name)
        if under_way is not None and under_way.target is target:
            return
        self.cancel(name)
        if not target.holds(name):
            self._begin(partition, target)

    def take_preference(self, name: TopicPartition) -> LogDir | None:
        """Return the log dir that somebody wants a partition in which is new here."""
        preferred = self._preferred.pop(name, None)
        return preferred if preferred is not None and preferred.is_online else None

    def resume(self, partition: Partition) -> None:
        """Begin again with a move that the last stop of the broker interrupted."""
        for log_dir in self._log_dirs:
            if partition.name in log_dir.expected:
                log_dir.expected.discard(partition.name)
                if log_dir.is_online and not log_dir.holds(partition.name):
                    self._begin(partition, log_dir)

    def to(self, log_dir: LogDir) -> list[Move]:
        """Return what is being copied to a log dir."""
        return [move for move in self._under_way.values() if move.target is log_dir]

    def cancel(self, name: TopicPartition) -> None:
        """Leave a partition where it is."""
        move = self._under_way.pop(name, None)
        if move is not None and move.task is not None:
            move.task.cancel()

    def close(self) -> None:
        """Stop copying; the next start begins anew."""
        self._is_closed = True
        for move in self._under_way.values():
            if move.task is not None:
                move.task.cancel()

    # Under way ------------------------------------------------------------------------------------------------------

    def _begin(self, partition: Partition, target: LogDir) -> None:
        move = self._under_way[partition.name] = Move(partition, target)
        move.task = self._loop.create_task(self._run(move))

    async def _run(self, move: Move) -> None:
        name = move.partition.name
        try:
            while not await self._try(move):
                self._discard(move)
        except StorageError as error:
            events.error("log_not_moved", partition=name, to=move.target.path, reason=str(error))
        finally:
            if self._under_way.get(name) is move:
                del self._under_way[name]
            if not self._is_closed:
                self._discard(move)

    def _discard(self, move: Move) -> None:
        """Remove a copy that is not needed, once nobody writes to it."""
        copy, move.copy = move.copy, None
        if copy is None:
            return
        if move.copying is not None and not move.copying.done():
            move.copying.add_done_callback(lambda _: self._remove(move.target, copy.directory))
        else:
            self._remove(move.target, copy.directory)

    def _remove(self, log_dir: LogDir, folder: Path) -> None:
        self._loop.run_in_executor(self._executor, _remove, log_dir, folder)

    async def _try(self, move: Move) -> bool:
        """Copy and exchange; return False if the log was cut in the meantime, so that the copy is worth nothing."""
        partition = move.partition
        log = partition.log
        cuts = log.cuts
        copy = move.copy = move.target.begin_copy(
            partition.name,
            log.config,
            start_offset=log.log_start_offset,
            now_ms=self._now_ms(),
            topic_id=partition.topic_id,
        )
        while True:
            if log.cuts != cuts:
                return False
            region = self._next(log, copy)
            if region is not None:
                await self._copy(move, copy, region)
                continue
            flushed_to = await self._flush(copy)
            if partition.pins or log.cuts != cuts or self._left(log, copy) > LAST_BYTES:
                await asyncio.sleep(_PAUSE_S)
                continue
            self._exchange(move, copy, flushed_to)
            return True

    def _next(self, log: Log, copy: Log) -> FileRegion | None:
        """Return what is to be copied next, None if there is nothing more."""
        try:
            return log.read(copy.log_end_offset, max_bytes=CHUNK_BYTES, up_to=log.log_end_offset)
        except OffsetOutOfRange:  # retention was faster
            copy.restart_at(log.log_start_offset, now_ms=self._now_ms())
            return log.read(copy.log_end_offset, max_bytes=CHUNK_BYTES, up_to=log.log_end_offset)

    async def _copy(self, move: Move, copy: Log, region: FileRegion) -> None:
        await self._keep_the_pace(len(region))
        move.copying = self._loop.run_in_executor(self._executor, _append, copy, region, self._now_ms())
        await asyncio.shield(move.copying)

    async def _keep_the_pace(self, size_bytes: int) -> None:
        limit = self._config[replication.REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND]
        now = self._loop.time()
        wait_s = self._may_copy_at - now
        self._may_copy_at = max(self._may_copy_at, now) + size_bytes / limit
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    async def _flush(self, copy: Log) -> int:
        flush = copy.start_flush()
        await self._loop.run_in_executor(self._executor, flush.run)
        copy.finish_flush(flush)
        return flush.end_offset

    @staticmethod
    def _left(log: Log, copy: Log) -> int:
        region = log.read(copy.log_end_offset, max_bytes=_EVERYTHING, up_to=log.log_end_offset)
        return 0 if region is None else len(region)

    def _exchange(self, move: Move, copy: Log, flushed_to: int) -> None:
        """Put the copy in the place of the log: nothing else runs in the meantime. See `settled_moves.py`.

        Where appends are synced before they count, so is the little that was appended since the last flush, and that
        the old log is set aside: after a power cut, a copy that has the name is whole, and alone in having it.
        """
        partition, old, now_ms = move.partition, move.partition.log, self._now_ms()
        source = next(log_dir for log_dir in self._log_dirs if log_dir.path == old.directory.parent)
        while (region := old.read(copy.log_end_offset, max_bytes=CHUNK_BYTES, up_to=old.log_end_offset)) is not None:
            _append(copy, region, now_ms)
        copy.take_over_from(old)
        if partition.syncs_appends:
            flushed_to = _flush_now(copy)
        set_aside = source.set_aside(partition.name)
        try:
            if partition.syncs_appends:
                source.sync_names()
            log = move.target.adopt_copy(partition.name, copy, flushed_to=flushed_to, now_ms=now_ms)
        except StorageError:
            source.restore(partition.name, set_aside)
            raise
        move.copy = None
        log.take_over_from(old)
        partition.exchange_log(log)
        events.warning("log_moved", partition=partition.name, to=move.target.path)
        delay_s = log.config.file_delete_delay_ms / 1000
        self._loop.call_later(delay_s, self._remove_old, source, move.target, set_aside)

    def _remove_old(self, source: LogDir, target: LogDir, folder: Path) -> None:
        self._loop.run_in_executor(self._executor, _sync_and_remove, source, target, folder)


def _append(copy: Log, region: FileRegion, now_ms: int) -> None:
    """Append batches to a copy. Raises StorageError also for damage: what is damaged is not copied."""
    try:
        copy.append_as_follower(memoryview(region.read()), now_ms=now_ms)
    except OSError as error:
        raise StorageError(f"cannot read what is to be copied: {error}") from error
    except StorageError:
        raise
    except KafkaError as error:
        raise StorageError(error.message) from error


def _flush_now(copy: Log) -> int:
    copy.flush()
    return copy.recovery_point


def _remove(log_dir: LogDir, folder: Path) -> None:
    with suppress(OSError):
        log_dir.remove_detached(folder)


def _sync_and_remove(source: LogDir, target: LogDir, folder: Path) -> None:
    """Remove the old log once the new one's name is on the disk."""
    with suppress(OSError, StorageError):
        target.sync_names()
        source.remove_detached(folder)
