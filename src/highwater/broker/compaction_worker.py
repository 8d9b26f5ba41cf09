"""Who carries out a compaction: a process of its own, because it reads every record."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from subprocess import PIPE, Popen
from typing import IO, TYPE_CHECKING, Final, Protocol

from highwater.model.errors import StorageError
from highwater.storage.compaction.messages import GO_ON, LENGTH, Job, Report, encode

if TYPE_CHECKING:
    from concurrent.futures import Future

LAUNCHER: Final = "highwater.compiled.run"
WORKER_MODULE: Final = "highwater.storage.compaction.worker"
STARVING_S: Final = 30.0
"""How long a process that wants the processor does not get it before anybody asks how much it got."""
STARVING_SHARE: Final = 0.05
"""Of the time that it waited; who ran for less than that starves."""


class CompactionWorker(Protocol):
    """One job under way: reports come one by one, and it goes on only when it is told to."""

    async def report(self) -> Report:
        """Return what was done next. StorageError if nothing will come."""

    def go_on(self) -> None:
        """Have the next group compacted: the last one is in place."""

    def is_starving(self) -> bool:
        """Say whether it has hardly been given the processor for a good while; the next answer is about later."""

    async def close(self) -> None:
        """End the work, wherever it stands."""


class WorkerProcess:
    """A job in a child process; see `storage.compaction.worker`.

    A thread of its own starts it and listens to it: until a new process runs, who started it waits for milliseconds,
    and the loop has none. That thread stays until the end, because the process is killed when it goes.
    """

    def __init__(self, job: Job) -> None:
        self._thread = ThreadPoolExecutor(1, "compaction")
        self._process = self._thread.submit(_start, job)
        self._ran_ns = self._waited_ns = 0

    @classmethod
    async def start(cls, job: Job) -> WorkerProcess:
        """Start a process and give it the job."""
        return cls(job)

    async def report(self) -> Report:
        """Return the process's next word."""
        return await asyncio.wrap_future(self._thread.submit(_next_report, self._process))

    def go_on(self) -> None:
        """Let the process compact the next group."""
        with contextlib.suppress(BrokenPipeError):  # it has ended: there will be no further report
            _tell(self._process.result(), GO_ON)

    def is_starving(self) -> bool:
        """Say whether others had the processor nearly all the time, once it was waited for long enough to tell."""
        if not self._process.done() or self._process.exception() is not None:
            return False
        try:
            times = Path(f"/proc/{self._process.result().pid}/schedstat").read_text(encoding="ascii").split()
        except OSError:  # it has ended, or this is not Linux
            return False
        ran_ns, waited_ns = int(times[0]) - self._ran_ns, int(times[1]) - self._waited_ns
        if waited_ns < STARVING_S * 1e9:
            return False
        self._ran_ns += ran_ns
        self._waited_ns += waited_ns
        return ran_ns < STARVING_SHARE * waited_ns

    async def close(self) -> None:
        """Kill the process, if it is still there."""
        if self._process.done() and self._process.exception() is None:
            self._process.result().kill()  # the thread, which may be listening, hears the end
        await asyncio.wrap_future(self._thread.submit(_end, self._process))
        self._thread.shutdown(wait=False)


# In the thread --------------------------------------------------------------------------------------------------------


def _start(job: Job) -> Popen[bytes]:
    process = Popen([sys.executable, "-m", LAUNCHER, WORKER_MODULE], stdin=PIPE, stdout=PIPE)  # noqa: S603 - ourselves
    with contextlib.suppress(BrokenPipeError):
        _tell(process, encode(job))
    return process


def _tell(process: Popen[bytes], message: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(message)
    process.stdin.flush()


def _next_report(started: Future[Popen[bytes]]) -> Report:
    try:
        stdout = started.result().stdout
    except OSError as error:
        raise StorageError(f"no process can be started that compacts it: {error}") from error
    assert stdout is not None
    (length,) = LENGTH.unpack(_read(stdout, LENGTH.size))
    report: Report = pickle.loads(_read(stdout, length))  # noqa: S301 - our own child
    return report


def _read(pipe: IO[bytes], size: int) -> bytes:
    data = pipe.read(size)
    if len(data) < size:
        raise StorageError("the process that compacts it ended without a word")
    return data


def _end(started: Future[Popen[bytes]]) -> None:
    if started.exception() is None:
        process = started.result()
        process.kill()
        with contextlib.suppress(BrokenPipeError), process:  # closes its pipes and waits for it
            pass
