"""A disk without room, under the data of a broker that is not running."""

import os
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from highwater.testing.broker import BrokerProcess

ROOM_BYTES: Final = 192 * 1024
PAGE_BYTES: Final = 4096


@contextmanager
def full_disk(broker: BrokerProcess) -> Iterator[Callable[[], int]]:
    """Start a broker that was ended on a disk with little room left; end it and give it its disk back afterwards.

    Where a file system can be mounted, a small one lies over the data dir: ENOSPC. Elsewhere no file may grow by much:
    EFBIG. What it gives says how much room is left.
    """
    data = broker.data_dir
    aside = data.with_name(data.name + ".aside")
    data.rename(aside)
    data.mkdir()
    if _mount(data, _needed_bytes(aside) + ROOM_BYTES):
        try:
            shutil.copytree(aside, data, dirs_exist_ok=True)
            broker.start()
            yield lambda: shutil.disk_usage(data).free
            broker.kill()
            shutil.rmtree(aside)
            shutil.copytree(data, aside)
        finally:
            subprocess.run(["umount", "--lazy", str(data)], check=True)  # noqa: S607 - the system's own
            data.rmdir()
            aside.rename(data)
        return
    data.rmdir()
    aside.rename(data)
    broker.start()
    limit = _largest(data) + ROOM_BYTES
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    yield lambda: limit - _largest(data)
    broker.kill()


def _largest(folder: Path) -> int:
    return max((file.stat().st_size for file in folder.rglob("*.log")), default=0)


def _needed_bytes(folder: Path) -> int:
    """Return what files take on the disk; mapped indexes are mostly holes here, and copied they are not."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    return sum(-(-path.stat().st_size // PAGE_BYTES) * PAGE_BYTES for path in files) + PAGE_BYTES * len(files)


def _mount(folder: Path, size_bytes: int) -> bool:
    command = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes}", "tmpfs", str(folder)]
    return os.geteuid() == 0 and subprocess.run(command, capture_output=True, check=False).returncode == 0
