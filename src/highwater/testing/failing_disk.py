"""A broker whose disks fail when they are told to: `python -m highwater.testing.failing_disk serve ...`.

break_disk(broker.data_dir)      # from now on every access to this log dir is an EIO
break_sending(broker.data_dir)   # only `sendfile` fails: pages that were in memory a moment ago must be read again
hang_disk(broker.data_dir)       # reading takes as long as it is so
die_at_rename(partition, 3)      # the third rename in this folder from now on does not happen: kill -9 comes first
repair_disk(broker.data_dir)     # a broker that is started again finds it well
"""

import errno
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from highwater.storage.files import BytesLike, Entry, File, Lock, MappedFile, OsFile, OsFiles, Space

MODULE: Final = "highwater.testing.failing_disk"
BROKEN: Final = ".broken"
UNSENDABLE: Final = ".unsendable"
HANGING: Final = ".hanging"
DEADLY: Final = ".deadly"
_PAUSE_SECONDS: Final = 0.01


def break_disk(log_dir: Path) -> None:
    """Let every access to a log dir fail."""
    _mark(log_dir, BROKEN).touch()


def break_sending(log_dir: Path) -> None:
    """Let nothing of a log dir be sent from the page cache."""
    _mark(log_dir, UNSENDABLE).touch()


def hang_disk(log_dir: Path) -> None:
    """Let nobody who reads in a log dir get an answer."""
    _mark(log_dir, HANGING).touch()


def die_at_rename(folder: Path, number: int) -> None:
    """Let the broker be killed before it renames something in a folder for the `number`th time."""
    _mark(folder, DEADLY).write_text(str(number))


def repair_disk(log_dir: Path) -> None:
    """Let accesses to a log dir work again."""
    for suffix in (BROKEN, UNSENDABLE, HANGING, DEADLY):
        _mark(log_dir, suffix).unlink(missing_ok=True)


def _mark(log_dir: Path, suffix: str) -> Path:
    return log_dir.with_name(log_dir.name + suffix)


def _is_marked(path: Path, suffix: str) -> bool:
    return any(_mark(folder, suffix).exists() for folder in (path, *path.parents) if folder.name)


def _check(path: Path, suffix: str = BROKEN) -> None:
    if _is_marked(path, suffix):
        raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))


def _count_down(folder: Path) -> None:
    mark = _mark(folder, DEADLY)
    if mark.exists():
        left = int(mark.read_text()) - 1
        mark.write_text(str(left))
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class FailingFiles(OsFiles):
    """The file system of this machine, without the folders that are marked as broken."""

    def open(self, path: Path) -> File:
        """Open a file that exists."""
        _check(path)
        return _FailingFile(path)

    def create(self, path: Path) -> File:
        """Open or make a file."""
        _check(path)
        return _FailingFile(path, os.O_RDWR | os.O_CREAT)

    def map(self, path: Path, size: int) -> MappedFile:
        """Map a file."""
        _check(path)
        return super().map(path, size)

    def list(self, folder: Path) -> list[Entry]:
        """Return what a folder holds."""
        _check(folder)
        return super().list(folder)

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it."""
        _check(path)
        super().make_folder(path)

    def rename(self, source: Path, target: Path) -> None:
        """Rename at once."""
        _check(source)
        _count_down(target.parent)
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        _check(path)
        super().remove(path)

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder."""
        _check(path)
        super().remove_folder(path)

    def sync_folder(self, path: Path) -> None:
        """Sync the names in a folder."""
        _check(path)
        super().sync_folder(path)

    def lock(self, path: Path) -> Lock | None:
        """Lock a file."""
        _check(path)
        return super().lock(path)

    def space(self, path: Path) -> Space:
        """Ask the file system."""
        _check(path)
        return super().space(path)


class _FailingFile(OsFile):
    __slots__ = ("_path",)

    def __init__(self, path: Path, access: int = os.O_RDWR) -> None:
        super().__init__(path, access)
        self._path = path

    def fileno(self) -> int:
        _check(self._path, UNSENDABLE)
        return super().fileno()

    def write(self, buffers: Sequence[BytesLike], position: int) -> int:
        _check(self._path)
        return super().write(buffers, position)

    def read(self, position: int, length: int) -> bytes:
        while _is_marked(self._path, HANGING):
            time.sleep(_PAUSE_SECONDS)
        _check(self._path)
        return super().read(position, length)

    def read_without_waiting(self, position: int, length: int) -> bytes | None:
        del position, length
        return None  # so that the disk is asked

    def sync(self) -> None:
        _check(self._path)
        super().sync()


def main() -> int:
    """Serve on this file system."""
    from highwater.app.serve import main as serve
    from highwater.app.world import World

    return serve(sys.argv[2:], World(files=FailingFiles()))


if __name__ == "__main__":
    sys.exit(main())
