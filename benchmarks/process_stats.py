"""What a process costs: its processor time and its memory, as the kernel counts them; and what was not ours to use."""

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")
KIB = 1024


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident bytes, and the proportional share of them: shared pages are split among those who map them."""

    rss_bytes: int
    pss_bytes: int


def family(pid: int) -> Iterator[int]:
    """Yield a process and all that it started: a broker may do its heavy work in a child."""
    yield pid
    for task in (PROC / str(pid) / "task").glob("*/children"):
        for child in task.read_text().split():
            yield from family(int(child))


def cpu_seconds(pid: int) -> float:
    """Return the time on a processor of all threads that live now, to the nanosecond."""
    nanoseconds = 0
    for member in family(pid):
        for schedstat in (PROC / str(member) / "task").glob("*/schedstat"):
            try:
                nanoseconds += int(schedstat.read_text().split()[0])
            except FileNotFoundError:
                continue  # the thread ended between the listing and the reading
    return nanoseconds / 1e9


def memory(pid: int) -> Memory:
    """Return the memory of a process and its children."""
    totals = {"Rss": 0, "Pss": 0}
    for member in family(pid):
        for line in (PROC / str(member) / "smaps_rollup").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in totals:
                totals[name] += int(value.split()[0]) * KIB
    return Memory(rss_bytes=totals["Rss"], pss_bytes=totals["Pss"])


class Stolen:
    """Measures, from its making on, what share of our processors the machine below gave to somebody else."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._stolen_seconds = _stolen_seconds()

    def share(self) -> float:
        """Return the share, between 0 and 1."""
        seconds = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        return (_stolen_seconds() - self._stolen_seconds) / seconds


def _stolen_seconds() -> float:
    ticks = (PROC / "stat").read_text().partition("\n")[0].split()
    return int(ticks[8]) / os.sysconf("SC_CLK_TCK")
