"""After a crash: logs with much to check are checked by several processes at once, before anything is served.

What is little is left to the moment when a log is opened. So is everything when a process fails.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from highwater.broker.log_configs import log_config
from highwater.broker.recovery_process import LogChecker, ProcessEnded, RecoveryProcess
from highwater.config.settings import log, transactions
from highwater.config.topic_settings import TopicSettings
from highwater.model.log_events import EventLog

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from highwater.config.broker_config import BrokerConfig
    from highwater.model.ids import TopicPartition
    from highwater.storage.log_config import LogConfig
    from highwater.storage.log_dir import LogDir
    from highwater.storage.recovery_messages import RecoveryJob

events = EventLog("broker")

WORTH_A_PROCESS_BYTES: Final = 32 * 1024 * 1024
"""Below this, starting a process takes longer than checking."""
TELL_EVERY_S: Final = 2.0
_MEGABYTE: Final = 1_000_000


class _Task(NamedTuple):
    log_dir: LogDir
    name: TopicPartition
    job: RecoveryJob


async def recover_logs(
    log_dirs: Sequence[LogDir],
    *,
    config: BrokerConfig,
    now_ms: Callable[[], int],
    start_checker: Callable[[], Awaitable[LogChecker]] = RecoveryProcess.start,
) -> None:
    """Check every log with much to check, if a log dir was not left by a clean stop.

    The settings of topics are not known yet; for a log that is not written to, the broker's own do as well. What only
    the topic's own can tell is left to the moment when the log is opened.
    """
    defaults = TopicSettings.resolve(config, {})
    of_brokers = log_config(defaults, producer_id_expiration_ms=config[transactions.PRODUCER_ID_EXPIRATION_MS])
    of_logs = dataclasses.replace(of_brokers, compact=None)
    work = [tasks for log_dir in log_dirs if (tasks := _tasks(log_dir, of_logs, now_ms()))]
    if sum(task.job.unchecked_bytes for tasks in work for task in tasks) >= WORTH_A_PROCESS_BYTES:
        await _Recovery(work, config[log.NUM_RECOVERY_THREADS_PER_DATA_DIR], start_checker).run()


def _tasks(log_dir: LogDir, config: LogConfig, now_ms: int) -> deque[_Task]:
    """Return the logs of a log dir that have something to check, the largest first."""
    jobs = [
        _Task(log_dir, name, job)
        for name in log_dir.partitions
        if (job := log_dir.recovery_job(name, config, now_ms=now_ms)) is not None
    ]
    return deque(sorted(jobs, key=lambda task: -task.job.unchecked_bytes))


class _Recovery:
    """The work on the logs of some log dirs."""

    def __init__(
        self,
        work: Sequence[deque[_Task]],
        checkers_per_log_dir: int,
        start_checker: Callable[[], Awaitable[LogChecker]],
    ) -> None:
        self._work = work
        self._checkers_per_log_dir = checkers_per_log_dir
        self._start_checker = start_checker
        self._logs = sum(map(len, work))
        self._bytes = sum(task.job.unchecked_bytes for tasks in work for task in tasks)
        self._logs_done = self._bytes_done = 0

    async def run(self) -> None:
        """Return when everything is checked."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        telling = loop.create_task(self._tell_now_and_then())
        try:
            async with asyncio.TaskGroup() as group:
                for tasks in self._work:
                    for _ in range(min(self._checkers_per_log_dir, len(tasks))):
                        group.create_task(self._work_off(tasks))
        finally:
            telling.cancel()
        seconds = round(loop.time() - started, 1)
        events.warning("logs_recovered", logs=self._logs_done, megabytes=self._megabytes(), seconds=seconds)

    async def _tell_now_and_then(self) -> None:
        while True:
            events.warning("recovering_logs", logs=f"{self._logs_done}/{self._logs}", megabytes=self._megabytes())
            await asyncio.sleep(TELL_EVERY_S)

    def _megabytes(self) -> str:
        return f"{self._bytes_done // _MEGABYTE}/{self._bytes // _MEGABYTE}"

    async def _work_off(self, tasks: deque[_Task]) -> None:
        checker = await self._start_checker()
        try:
            while tasks:
                await self._check(checker, tasks.popleft())
        except ProcessEnded:
            events.error("recovery_process_ended", reason="the broker checks the rest by itself")
        finally:
            await checker.close()

    async def _check(self, checker: LogChecker, task: _Task) -> None:
        outcome = await checker.check(task.job)
        if outcome.failure is not None:
            events.warning("log_not_recovered", partition=task.name, reason=outcome.failure)
            return
        for note in outcome.notes:
            events.warning("log_repaired", partition=task.name, what=note)
        task.log_dir.recovered(task.name)
        self._logs_done += 1
        self._bytes_done += task.job.unchecked_bytes
