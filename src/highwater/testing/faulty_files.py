"""A disk with switches: it fails, fills up, writes too little, or is there no more, at the step you name."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from highwater.storage.files import BytesLike, Entry, File, Files, Lock, MappedFile, MutableBytes, OsFiles, Space


class Killed(BaseException):
    """The process is gone at this step. No handler of the code under test may catch it."""


class FaultyFiles:
    """The real disk behind a counter of everything that changes it.

    `fail_at` and `kill_at` are numbers of steps. A step that fails or kills has not happened. Syncs are counted and
    left out: a process that dies loses nothing that it has written.
    """

    def __init__(self, real: Files | None = None) -> None:
        self.real: Files = real if real is not None else OsFiles()
        self.steps = 0
        self.fail_at: int | None = None
        """This step raises an OSError with `error_number`."""
        self.keeps_failing = False
        """All steps after `fail_at` fail too."""
        self.error_number = errno.ENOSPC
        self.kill_at: int | None = None
        """From this step on everything raises Killed."""
        self.is_full = False
        """Whatever needs space fails; cutting, renaming and removing still work."""
        self.largest_write: int | None = None
        """Writes of more bytes are cut short."""

    def step(self, *, needs_space: bool = False) -> None:
        """Count one change of the disk, or stop it."""
        self.steps += 1
        if self.kill_at is not None and self.steps >= self.kill_at:
            raise Killed
        if self.is_full and needs_space:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.fail_at == self.steps or (
            self.keeps_failing and self.fail_at is not None and self.steps > self.fail_at
        ):
            raise OSError(self.error_number, os.strerror(self.error_number))

    def open(self, path: Path) -> File:
        """Open a file."""
        return _FaultyFile(self, self.real.open(path))

    def create(self, path: Path) -> File:
        """Open a file, or make it, which is a change."""
        if not self.real.exists(path):
            self.step(needs_space=True)
        return _FaultyFile(self, self.real.create(path))

    def map(self, path: Path, size: int) -> MappedFile:
        """Map a file, which may make it longer, sparsely."""
        self.step()
        return _FaultyMappedFile(self, self.real.map(path, size))

    def list(self, folder: Path) -> list[Entry]:
        """List a folder."""
        return self.real.list(folder)

    def exists(self, path: Path) -> bool:
        """Look for a file."""
        return self.real.exists(path)

    def make_folder(self, path: Path) -> None:
        """Make a folder."""
        self.step()
        self.real.make_folder(path)

    def rename(self, source: Path, target: Path) -> None:
        """Rename a file."""
        self.step()
        self.real.rename(source, target)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        self.step()
        self.real.remove(path)

    def remove_folder(self, path: Path) -> None:
        """Remove a folder."""
        self.step()
        self.real.remove_folder(path)

    def sync_folder(self, path: Path) -> None:  # noqa: ARG002 - the seam's signature
        """Sync the names in a folder."""
        self.step()

    def sync_all(self, path: Path) -> None:  # noqa: ARG002 - the seam's signature
        """Sync everything."""
        self.step()

    def lock(self, path: Path) -> Lock | None:
        """Take a lock."""
        return self.real.lock(path)

    def space(self, path: Path) -> Space:
        """Ask for the size of the disk."""
        return self.real.space(path)


class _FaultyFile:
    def __init__(self, disk: FaultyFiles, file: File) -> None:
        self._disk = disk
        self._file = file

    def fileno(self) -> int:
        return self._file.fileno()

    def size(self) -> int:
        return self._file.size()

    def read(self, position: int, length: int) -> bytes:
        return self._file.read(position, length)

    def read_without_waiting(self, position: int, length: int) -> bytes | None:
        return self._file.read_without_waiting(position, length)

    def write(self, buffers: Sequence[BytesLike], position: int) -> int:
        self._disk.step(needs_space=True)
        if self._disk.largest_write is not None:
            buffers = [b"".join(buffers)[: self._disk.largest_write]]
        return self._file.write(buffers, position)

    def cut(self, size: int) -> None:
        self._disk.step()
        self._file.cut(size)

    def sync(self) -> None:
        self._disk.step()


class _FaultyMappedFile:
    def __init__(self, disk: FaultyFiles, mapped: MappedFile) -> None:
        self._disk = disk
        self._mapped = mapped

    @property
    def memory(self) -> MutableBytes:
        return self._mapped.memory

    def reserve(self, start: int, length: int) -> None:
        self._disk.step(needs_space=True)
        self._mapped.reserve(start, length)

    def close(self) -> None:
        self._mapped.close()
