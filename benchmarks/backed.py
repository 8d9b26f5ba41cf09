"""Memory that the machine below has given already, while something is measured; run as a module, it sees to that.

A virtual machine is often given its memory when it first touches it: a page of 4 KB that nobody had used before took
10.6 µs here, one that somebody had took 1.6. Brokers write to fresh pages of the page cache all the time, and half of
a broker's processor time went there, a different part of it in every round. So what is free is touched once and given
back, but for one page in each megabyte: what is free in large pieces is what the machine below takes back.
"""

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

SHARE: Final = 0.8
"""Of what is free."""
AT_ONCE_BYTES: Final = 256 << 20
KEPT_EVERY_BYTES: Final = 1 << 20
LOOK_SECONDS: Final = 0.5
DIES_FIRST: Final = "1000"
"""If less memory may be used than is free, as in some containers, this program is ended and not what is measured."""
_POPULATE_WRITE: Final = 23
"""Of madvise(2), since Linux 5.14; Python has no name for it."""


@contextmanager
def memory_backed() -> Iterator[None]:
    """Have most of what is free now backed by real memory."""
    command = [sys.executable, "-m", "benchmarks.backed", str(os.getpid())]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        try:
            yield
        finally:
            process.kill()


def free_bytes() -> int:
    """Return how much memory nobody uses, not even as a cache."""
    lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemFree:"))


def touch(size: int) -> mmap.mmap:
    """Touch so much memory, give it back, and return the pages that are kept."""
    size -= size % AT_ONCE_BYTES
    memory = mmap.mmap(-1, max(size, AT_ONCE_BYTES), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for start in range(0, size, AT_ONCE_BYTES):
        memory.madvise(_POPULATE_WRITE, start, AT_ONCE_BYTES)
    for start in range(0, size, KEPT_EVERY_BYTES):
        memory.madvise(mmap.MADV_DONTNEED, start + mmap.PAGESIZE, KEPT_EVERY_BYTES - mmap.PAGESIZE)
    return memory


def main(arguments: Sequence[str]) -> None:
    """Touch, say so, and keep a few pages for as long as whoever began it lives."""
    parent = int(arguments[0])
    Path("/proc/self/oom_score_adj").write_text(DIES_FIRST, encoding="ascii")
    try:
        kept = touch(int(free_bytes() * SHARE))
    except OSError as error:
        sys.exit(f"memory is not touched before the first line ({error.strerror}; Linux 5.14 or later can)")
    print("touched", flush=True)
    while os.getppid() == parent:
        time.sleep(LOOK_SECONDS)
    kept.close()


if __name__ == "__main__":
    main(sys.argv[1:])
