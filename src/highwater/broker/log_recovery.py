"""After a crash: logs with much to check are checked by several processes at once, before anything is served.

What is little is left to the moment when a log is opened. So is everything when a process fails.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import sys
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from highwater.broker.compaction_worker import LAUNCHER
from highwater.broker.log_configs import log_config
from highwater.config.settings import log, transactions
from highwater.config.topic_settings import TopicSettings
from highwater.model.log_events import EventLog
from highwater.storage.recovery_messages import LENGTH, RecoveryJob, RecoveryOutcome, encode

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Callable, Sequence

    from highwater.config.broker_config import BrokerConfig
    from highwater.model.ids import TopicPartition
    from highwater.storage.log_config import LogConfig
    from highwater.storage.log_dir import LogDir

events = EventLog("broker")

WORKER_MODULE: Final = "highwater.storage.recovery_worker"
WORTH_A_PROCESS_BYTES: Final = 32 * 1024 * 1024
"""Below this, starting a process takes longer than checking."""
TELL_EVERY_S: Final = 2.0
_MEGABYTE: Final = 1_000_000


class _Task(NamedTuple):
    log_dir: LogDir
    name: TopicPartition
    job: RecoveryJob


async def recover_logs(log_dirs: Sequence[LogDir], *, config: BrokerConfig, now_ms: Callable[[], int]) -> None:
    """Check every log with much to check, if a log dir was not left by a clean stop.

    The settings of topics are not known yet; for a log that is not written to, the broker's own do as well.
    """
    defaults = TopicSettings.resolve(config, {})
    of_logs = log_config(defaults, producer_id_expiration_ms=config[transactions.PRODUCER_ID_EXPIRATION_MS])
    work = [tasks for log_dir in log_dirs if (tasks := _tasks(log_dir, of_logs, now_ms()))]
    if sum(task.job.unchecked_bytes for tasks in work for task in tasks) >= WORTH_A_PROCESS_BYTES:
        await _Recovery(work, config[log.NUM_RECOVERY_THREADS_PER_DATA_DIR]).run()


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

    def __init__(self, work: Sequence[deque[_Task]], processes_per_log_dir: int) -> None:
        self._work = work
        self._processes = min(processes_per_log_dir, max(1, (os.cpu_count() or 1) // len(work)))
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
                    for _ in range(min(self._processes, len(tasks))):
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
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", LAUNCHER, WORKER_MODULE),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            while tasks:
                await self._check(process, tasks.popleft())
        except (asyncio.IncompleteReadError, ConnectionError):
            events.error("recovery_process_ended", reason="the broker checks the rest by itself")
        finally:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _check(self, process: Process, task: _Task) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(encode(task.job))
        (length,) = LENGTH.unpack(await process.stdout.readexactly(LENGTH.size))
        outcome: RecoveryOutcome = pickle.loads(await process.stdout.readexactly(length))  # noqa: S301 - our own child
        if outcome.failure is not None:
            events.warning("log_not_recovered", partition=task.name, reason=outcome.failure)
            return
        for note in outcome.notes:
            events.warning("log_repaired", partition=task.name, what=note)
        task.log_dir.recovered(task.name)
        self._logs_done += 1
        self._bytes_done += task.job.unchecked_bytes
