"""A process for compaction: it reads every record, which would keep the broker's loop from serving.

    python -m highwater.storage.compaction.worker

A `Job` comes in on the standard input, what was done goes out on the standard output; see `messages.py`.
"""

import ctypes
import os
import pickle
import signal
import sys
import time
from typing import BinaryIO, Final

from highwater.model.errors import KafkaError
from highwater.storage.compaction.compaction import Compaction
from highwater.storage.compaction.messages import GO_ON, LENGTH, Failed, Finished, Job, Report, encode
from highwater.storage.files import OsFiles

_SET_PARENT_DEATH_SIGNAL: Final = 1
_SHORTEST_PAUSE_SECONDS: Final = 0.01
_LONGEST_TURN_SECONDS: Final = 0.0002
_NICENESS: Final = 10
"""About a tenth of a processor that somebody else would take as a whole."""


class Pacer:
    """Sleeps such that no more than a number of bytes a second are read and written; lets others go first if asked to.

    Linux lets who wakes up wait for the next tick, up to 4 ms, even behind who gives way to everybody (seen with 6.18).
    Who asks now and then whether somebody waits makes way at once.
    """

    def __init__(self, max_bytes_per_second: float, *, gives_way: bool = False) -> None:
        self._seconds_per_byte = 1 / max_bytes_per_second
        self._gives_way = gives_way
        self._due = self._asked_at = time.monotonic()

    def __call__(self, size_bytes: int) -> None:
        """Count bytes, and sleep when they came too fast."""
        now = time.monotonic()
        if self._gives_way and now - self._asked_at > _LONGEST_TURN_SECONDS:
            os.sched_yield()
            self._asked_at = now = time.monotonic()
        self._due = max(self._due, now - 1) + size_bytes * self._seconds_per_byte
        if self._due - now > _SHORTEST_PAUSE_SECONDS:
            time.sleep(self._due - now)


def read_job(incoming: BinaryIO) -> Job:
    """Return the one job that comes in."""
    (length,) = LENGTH.unpack(incoming.read(LENGTH.size))
    job: Job = pickle.loads(incoming.read(length))  # noqa: S301 - our own parent wrote it
    return job


def carry_out(job: Job, incoming: BinaryIO, outgoing: BinaryIO) -> None:
    """Compact group by group, as the broker says."""

    def tell(report: Report) -> None:
        outgoing.write(encode(report))
        outgoing.flush()

    try:
        compaction = Compaction(OsFiles(), job.plan, Pacer(job.max_bytes_per_second, gives_way=job.gives_way))
        for group in compaction.groups():
            tell(group)
            if incoming.read(1) != GO_ON:
                return
        tell(Finished(compaction.end_offset, compaction.records_read, compaction.records_kept))
    except (KafkaError, OSError) as error:
        tell(Failed(f"{type(error).__name__}: {error}"))


def main() -> None:
    """Work when nobody else wants the processor, and never outlive the broker: a new one may compact the same log.

    A lower niceness gets fewer turns, but each may keep a broker waiting for milliseconds: it is for machines where
    otherwise there would be no turns at all.
    """
    ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    job = read_job(sys.stdin.buffer)
    if job.gives_way:
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    else:
        os.nice(_NICENESS)
    carry_out(job, sys.stdin.buffer, sys.stdout.buffer)


if __name__ == "__main__":
    main()
