"""Who checks logs after a crash: a process of its own, because it reads every batch."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import sys
from typing import TYPE_CHECKING, Final, Protocol

from highwater.broker.compaction_worker import LAUNCHER
from highwater.storage.recovery_messages import LENGTH, RecoveryJob, RecoveryOutcome, encode

if TYPE_CHECKING:
    from asyncio.subprocess import Process

WORKER_MODULE: Final = "highwater.storage.recovery_worker"


class ProcessEnded(Exception):
    """The process is gone, and the log that it was at is not checked."""


class LogChecker(Protocol):
    """Checks one log after another."""

    async def check(self, job: RecoveryJob) -> RecoveryOutcome:
        """Check a log and leave it as a clean stop does. ProcessEnded if nothing will come."""

    async def close(self) -> None:
        """End, wherever it stands."""


class RecoveryProcess:
    """A child process; see `storage.recovery_worker`."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> RecoveryProcess:
        """Start a process that waits for its first log."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", LAUNCHER, WORKER_MODULE),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        return cls(process)

    async def check(self, job: RecoveryJob) -> RecoveryOutcome:
        """Have the process check a log."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(encode(job))
        try:
            (length,) = LENGTH.unpack(await self._process.stdout.readexactly(LENGTH.size))
            outcome: RecoveryOutcome = pickle.loads(await self._process.stdout.readexactly(length))  # noqa: S301 - our own child
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            raise ProcessEnded from error
        return outcome

    async def close(self) -> None:
        """Kill the process, if it is still there."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
