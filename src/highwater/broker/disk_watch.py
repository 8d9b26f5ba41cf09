"""Watches the disks of this broker: those that fail are taken offline, those that fill up take no more from producers.

A disk that is nearly full still has room for what keeps a broker going: replication, offsets, markers, checkpoints,
compaction. Apache Kafka writes until the disk is full and then gives the log dir up.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from highwater.config.settings import log as settings
from highwater.coordination.port import CoordinationError
from highwater.model.log_events import EventLog

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Awaitable, Callable, Sequence
    from concurrent.futures import Executor

    from highwater.broker.appends import Appends
    from highwater.config.broker_config import BrokerConfig
    from highwater.storage.log_dir import LogDir

events = EventLog("broker")

LOOK_EVERY_S: Final = 0.25
_PAUSE_S: Final = 0.5


class Replicas(Protocol):
    """Who serves what lies in log dirs."""

    def take_offline(self, log_dir: LogDir) -> None:
        """Serve nothing of this log dir any more."""


class DiskWatch:
    """Looks at free space from `start` to `stop`, and is told of failures as soon as it is made."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        executor: Executor,
        config: BrokerConfig,
        *,
        log_dirs: Sequence[LogDir],
        appends: Appends,
        replicas: Replicas,
        tell_controller: Callable[[], Awaitable[None]] | None = None,
        on_all_failed: Callable[[], None] = lambda: None,
    ) -> None:
        self._loop = loop
        self._executor = executor
        self._config = config
        self._log_dirs = log_dirs
        self._appends = appends
        self._replicas = replicas
        self._tell_controller = tell_controller
        self._on_all_failed = on_all_failed
        self._tasks: set[asyncio.Task[None]] = set()
        self._seen_bytes = -1
        for log_dir in log_dirs:
            log_dir.health.on_failure = partial(self._failed_on_any_thread, log_dir)
            if not log_dir.is_online:
                _tell_offline(log_dir)

    def start(self) -> None:
        """Begin to look."""
        self._spawn(self._look_again_and_again())

    def stop(self) -> None:
        """End."""
        for task in self._tasks:
            task.cancel()

    @property
    def failed(self) -> int:
        """How many log dirs have failed."""
        return sum(not log_dir.is_online for log_dir in self._log_dirs)

    @property
    def refusing(self) -> int:
        """How many log dirs take nothing from producers because there is little room."""
        return sum(log_dir.is_online and log_dir.health.refusal is not None for log_dir in self._log_dirs)

    # Failures -------------------------------------------------------------------------------------------------------

    def _failed_on_any_thread(self, log_dir: LogDir) -> None:
        self._loop.call_soon_threadsafe(self._failed, log_dir)

    def _failed(self, log_dir: LogDir) -> None:
        _tell_offline(log_dir)
        self._replicas.take_offline(log_dir)
        if self.failed == len(self._log_dirs):
            events.error("every_log_dir_failed")
            self._on_all_failed()
        elif self._tell_controller is not None:
            self._spawn(self._keep_telling(self._tell_controller))

    async def _keep_telling(self, tell: Callable[[], Awaitable[None]]) -> None:
        """Tell the controller, which asks us what we still serve and lets others lead the rest."""
        while True:
            try:
                await tell()
            except CoordinationError as error:
                events.warning("log_dir_failure_not_told", reason=str(error))
                await asyncio.sleep(_PAUSE_S)
            else:
                return

    # Space ----------------------------------------------------------------------------------------------------------

    async def _look_again_and_again(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """See how much room there is, if that may have changed since the last time."""
        written_bytes = self._appends.written_bytes
        if written_bytes == self._seen_bytes and not self.refusing:
            return  # nobody writes: an idle broker leaves the disk alone
        self._seen_bytes = written_bytes
        least = self._config[settings.LOG_DIRS_MIN_FREE_BYTES]
        for log_dir in self._log_dirs:
            if not log_dir.is_online:
                continue
            try:
                space = await self._loop.run_in_executor(self._executor, log_dir.space)
            except OSError as error:
                log_dir.health.noticed(error)
                continue
            self._judge(log_dir, space.free_bytes, least)

    @staticmethod
    def _judge(log_dir: LogDir, free_bytes: int, least: int) -> None:
        health = log_dir.health
        is_short = free_bytes < least
        if is_short is (health.refusal is not None):
            return
        if is_short:
            events.error("log_dir_nearly_full", log_dir=log_dir.path, free_bytes=free_bytes, least=least)
            health.room_is_short(
                f"log dir {log_dir.path} has {free_bytes} bytes free; log.dirs.min.free.bytes asks for {least}"
            )
        else:
            events.warning("log_dir_has_room", log_dir=log_dir.path, free_bytes=free_bytes)
            health.room_is_short(None)

    def _spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work, loop=self._loop)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _tell_offline(log_dir: LogDir) -> None:
    events.error("log_dir_offline", log_dir=log_dir.path, reason=log_dir.health.failure)
