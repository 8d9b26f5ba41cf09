"""Processors that do not fall asleep while something is measured; run as a module, it keeps one awake.

A virtual processor with nothing to do is taken away by the machine below, and comes back late when it is wanted. A byte
that two processes pass to and fro took 90 µs here, with 6 to 23 % of the time stolen, and 63 µs on processors that stay
awake, with 1 %. Brokers do little else but wait and be woken: without this, figures tell of the machine below. Who
keeps a processor awake gives way to everybody, also to those who give way themselves.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

YIELDS_AT_ONCE: Final = 1000


@contextmanager
def processors_awake() -> Iterator[None]:
    """Keep every processor that we may use awake."""
    with ExitStack() as stack:
        for processor in sorted(os.sched_getaffinity(0)):
            process = subprocess.Popen([sys.executable, "-m", "benchmarks.awake", str(processor), str(os.getpid())])
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield


def main(arguments: Sequence[str]) -> None:
    """Do nothing on one processor, for as long as whoever began it lives."""
    os.sched_setaffinity(0, {int(arguments[0])})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    parent = int(arguments[1])
    while os.getppid() == parent:
        for _ in range(YIELDS_AT_ONCE):
            os.sched_yield()


if __name__ == "__main__":
    main(sys.argv[1:])
