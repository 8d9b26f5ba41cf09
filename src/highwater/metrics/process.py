"""What the system knows about this process, and how late its event loop runs."""

import asyncio
import os
import resource
from pathlib import Path
from typing import Final

from highwater.metrics.declared import CPU_SECONDS, LOOP_LAG_SECONDS, OPEN_FILES, RESIDENT_MEMORY_BYTES
from highwater.metrics.registry import Registry

_LAG_PROBE_SECONDS: Final = 0.5
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")


def watch_process(registry: Registry) -> None:
    """Let the registry ask the system for memory, CPU time and open files."""
    registry.ask_one(RESIDENT_MEMORY_BYTES, _resident_bytes)
    registry.ask_one(CPU_SECONDS, _cpu_seconds)
    registry.ask_one(OPEN_FILES, _open_files)


def _resident_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * _PAGE_BYTES
    except OSError:  # not Linux: the peak, in KiB, is the nearest thing there is
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _open_files() -> int:
    try:
        return sum(1 for _ in Path("/dev/fd").iterdir())
    except OSError:
        return 0


class LoopLag:
    """Sets a timer again and again and measures how late it rings."""

    __slots__ = ("_due", "_histogram", "_loop", "_timer")

    def __init__(self, registry: Registry, loop: asyncio.AbstractEventLoop) -> None:
        self._histogram = registry.histogram(LOOP_LAG_SECONDS)
        self._loop = loop
        self._set()

    def _set(self) -> None:
        self._due = self._loop.time() + _LAG_PROBE_SECONDS
        self._timer = self._loop.call_at(self._due, self._ring)

    def _ring(self) -> None:
        self._histogram.observe_us(max(0, int((self._loop.time() - self._due) * 1e6)))
        self._set()

    def stop(self) -> None:
        """Stop measuring."""
        self._timer.cancel()
