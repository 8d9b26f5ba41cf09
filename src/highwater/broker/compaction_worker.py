"""Who carries out a compaction: a process of its own, because it reads every record."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import sys
from typing import TYPE_CHECKING, Final, Protocol

from highwater.model.errors import StorageError
from highwater.storage.compaction.messages import GO_ON, LENGTH, Job, Report, encode

if TYPE_CHECKING:
    from asyncio.subprocess import Process

LAUNCHER: Final = "highwater.compiled.run"
WORKER_MODULE: Final = "highwater.storage.compaction.worker"


class CompactionWorker(Protocol):
    """One job under way: reports come one by one, and it goes on only when it is told to."""

    async def report(self) -> Report:
        """Return what was done next. StorageError if nothing will come."""

    def go_on(self) -> None:
        """Have the next group compacted: the last one is in place."""

    async def close(self) -> None:
        """End the work, wherever it stands."""


class WorkerProcess:
    """A job in a child process; see `storage.compaction.worker`."""

    def __init__(self, process: Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, job: Job) -> WorkerProcess:
        """Start a process and give it the job."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", LAUNCHER, WORKER_MODULE),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        assert process.stdin is not None
        process.stdin.write(encode(job))
        return cls(process)

    async def report(self) -> Report:
        """Return the process's next word."""
        assert self._process.stdout is not None
        try:
            (length,) = LENGTH.unpack(await self._process.stdout.readexactly(LENGTH.size))
            report: Report = pickle.loads(await self._process.stdout.readexactly(length))  # noqa: S301 - our own child
        except asyncio.IncompleteReadError:
            raise StorageError("the process that compacts it ended without a word") from None
        return report

    def go_on(self) -> None:
        """Let the process compact the next group."""
        assert self._process.stdin is not None
        self._process.stdin.write(GO_ON)

    async def close(self) -> None:
        """Kill the process, if it is still there."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        await self._process.wait()
