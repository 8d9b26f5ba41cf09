"""The seam to the file system: everything that storage asks of a disk, and the real one.

A simulated disk that forgets what was not synced takes the place of `OsFiles`. Faults are `OSError`s on both sides.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeAlias

BytesLike: TypeAlias = bytes | bytearray | memoryview
MutableBytes: TypeAlias = bytearray | mmap.mmap

_WHOLE_FILE_EXCLUSIVE: Final = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
"""Linux's `struct flock`: type, whence, start, length (0: to the end), process id (unused)."""

MAX_BUFFERS_PER_WRITE: Final = 1024
"""IOV_MAX on Linux: the most buffers that one gathering write takes."""


class File(Protocol):
    """An open file. It stays open for as long as someone holds it: a response may outlive its segment."""

    def fileno(self) -> int:
        """Return the descriptor, for `sendfile`."""
        ...

    def size(self) -> int:
        """Return the length in bytes."""
        ...

    def write(self, buffers: Sequence[BytesLike], position: int) -> int:
        """Write at most MAX_BUFFERS_PER_WRITE buffers one after another; return how many bytes went, maybe not all."""
        ...

    def read(self, position: int, length: int) -> bytes:
        """Return up to `length` bytes; fewer only at the end of the file."""
        ...

    def read_without_waiting(self, position: int, length: int) -> bytes | None:
        """Return exactly these bytes if they are in memory, or None if the disk would have to be asked."""
        ...

    def cut(self, size: int) -> None:
        """Make the file `size` bytes long."""
        ...

    def sync(self) -> None:
        """Return when the bytes and the length are on the disk."""
        ...


class MappedFile(Protocol):
    """A file as memory. Writing to bytes that were not reserved may kill the process when the disk is full."""

    @property
    def memory(self) -> MutableBytes:
        """The bytes of the file."""
        ...

    def reserve(self, start: int, length: int) -> None:
        """Have the disk set the space aside, so that storing into these bytes cannot fail."""
        ...

    def close(self) -> None:
        """Let go of the memory."""
        ...


class Lock(Protocol):
    """A lock on a log dir, which other processes see."""

    def release(self) -> None:
        """Let another process have it."""
        ...


class Entry(NamedTuple):
    """One file or folder, as `Files.list` finds it."""

    name: str
    is_folder: bool
    size: int
    modified_ms: int


class Space(NamedTuple):
    """How large a disk is, and how much of it can still be written."""

    total_bytes: int
    free_bytes: int


class Files(Protocol):
    """What storage asks of a disk."""

    def open(self, path: Path) -> File:
        """Open a file for reading and writing. Raises FileNotFoundError."""
        ...

    def create(self, path: Path) -> File:
        """Open a file for reading and writing; make it when it is missing."""
        ...

    def map(self, path: Path, size: int) -> MappedFile:
        """Map a file; make it when it is missing, and sparsely longer when it is shorter than `size`."""
        ...

    def list(self, folder: Path) -> list[Entry]:
        """Return what a folder holds, by name."""
        ...

    def exists(self, path: Path) -> bool:
        """Say whether there is a file or folder of this name."""
        ...

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it; it may exist."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Rename at once, in place of what `target` was."""
        ...

    def remove(self, path: Path) -> None:
        """Remove a file; it may be missing."""
        ...

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder; it may be missing."""
        ...

    def sync_folder(self, path: Path) -> None:
        """Return when the names in a folder are on the disk."""
        ...

    def sync_all(self, path: Path) -> None:
        """Return when everything on the disk that holds `path` is safe there: one call for many files."""
        ...

    def lock(self, path: Path) -> Lock | None:
        """Take the lock, or return None when another process holds it."""
        ...

    def space(self, path: Path) -> Space:
        """Return how large the disk is that holds `path`."""
        ...


def write_all(file: File, buffers: Sequence[BytesLike], position: int, total_bytes: int) -> None:
    """Write all of `buffers`, `total_bytes` together, however often the disk takes only a part."""
    if len(buffers) <= MAX_BUFFERS_PER_WRITE and file.write(buffers, position) == total_bytes:
        return
    _write_in_parts(file, buffers, position)


def _write_in_parts(file: File, buffers: Sequence[BytesLike], position: int) -> None:
    """Write from the first buffer again (the same bytes to the same place), part by part."""
    remaining = [memoryview(buffer) for buffer in buffers if len(buffer)]
    remaining.reverse()
    while remaining:
        window = remaining[: -MAX_BUFFERS_PER_WRITE - 1 : -1]
        written = file.write(window, position)
        if written == 0:
            raise OSError("the disk took none of a write")
        position += written
        while remaining and written >= len(remaining[-1]):
            written -= len(remaining.pop())
        if written:
            remaining[-1] = remaining[-1][written:]


def rename_if_there(files: Files, source: Path, target: Path) -> None:
    """Rename a file that may be missing: one system call, where asking first would take two."""
    with contextlib.suppress(FileNotFoundError):
        files.rename(source, target)


def read_file(files: Files, path: Path) -> bytes | None:
    """Return all of a small file, or None when it is missing."""
    try:
        file = files.open(path)
    except FileNotFoundError:
        return None
    return file.read(0, file.size())


def replace_file(files: Files, path: Path, content: bytes, *, sync: bool = True) -> None:
    """Put `content` under `path` such that a crash leaves the old or the new content, never a mixture.

    Without `sync` this holds for a crash of the process only, which is enough where a reader can tell damage.
    """
    unfinished = path.with_name(path.name + ".tmp")
    file = files.create(unfinished)
    file.cut(0)
    write_all(file, [content], 0, len(content))
    if sync:
        file.sync()
    files.rename(unfinished, path)
    if sync:
        files.sync_folder(path.parent)


class OsFile:
    """A file of the operating system. The last one who lets go of it closes it."""

    __slots__ = ("_descriptor",)

    def __init__(self, path: Path, access: int = os.O_RDWR) -> None:
        self._descriptor = -1
        self._descriptor = os.open(path, access | os.O_CLOEXEC, 0o644)

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def size(self) -> int:
        """Return the length in bytes."""
        return os.fstat(self._descriptor).st_size

    def write(self, buffers: Sequence[BytesLike], position: int) -> int:
        """Write with one system call."""
        return os.pwritev(self._descriptor, buffers, position)

    def read(self, position: int, length: int) -> bytes:
        """Read with one system call, or more where the system returns less."""
        data = os.pread(self._descriptor, length, position)
        while len(data) < length:
            more = os.pread(self._descriptor, length - len(data), position + len(data))
            if not more:
                break
            data += more
        return data

    def read_without_waiting(self, position: int, length: int) -> bytes | None:
        """Read from the page cache only; where the file system cannot tell, read as usual."""
        buffer = bytearray(length)
        try:
            count = os.preadv(self._descriptor, [buffer], position, os.RWF_NOWAIT)
        except BlockingIOError:
            return None
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:
                raise
            return self.read(position, length)
        return bytes(buffer) if count == length else None

    def cut(self, size: int) -> None:
        """Make the file `size` bytes long."""
        os.ftruncate(self._descriptor, size)

    def sync(self) -> None:
        """Wait for the disk; the length counts as data, times do not."""
        os.fdatasync(self._descriptor)


class OsMappedFile:
    """A memory-mapped file of the operating system."""

    __slots__ = ("_file", "memory")

    def __init__(self, path: Path, size: int) -> None:
        self._file = OsFile(path, os.O_RDWR | os.O_CREAT)
        if self._file.size() < size:
            self._file.cut(size)
        self.memory: MutableBytes = mmap.mmap(self._file.fileno(), size)

    def reserve(self, start: int, length: int) -> None:
        """Write zeros: without space behind it a store on a full disk ends the process with SIGBUS.

        They also bring the pages into memory. `posix_fallocate` does not, and was measured to take three times as long.
        """
        written = os.pwrite(self._file.fileno(), bytes(length), start)
        if written != length:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close(self) -> None:
        """Unmap and close."""
        assert isinstance(self.memory, mmap.mmap)
        self.memory.close()
        del self._file


class OsLock:
    """A lock on an open file, gone with the process at the latest."""

    __slots__ = ("_file",)

    def __init__(self, file: OsFile) -> None:
        self._file: OsFile | None = file

    def release(self) -> None:
        """Close the file, and with it give up the lock."""
        self._file = None


class OsFiles:
    """The file system of this machine."""

    def open(self, path: Path) -> File:
        """Open a file that exists."""
        return OsFile(path)

    def create(self, path: Path) -> File:
        """Open or make a file."""
        return OsFile(path, os.O_RDWR | os.O_CREAT)

    def map(self, path: Path, size: int) -> MappedFile:
        """Map a file."""
        return OsMappedFile(path, size)

    def list(self, folder: Path) -> list[Entry]:
        """Return what a folder holds, by name."""
        found = []
        with os.scandir(folder) as entries:
            for entry in entries:
                status = entry.stat()
                found.append(
                    Entry(entry.name, entry.is_dir(), status.st_size, status.st_mtime_ns // 1_000_000),
                )
        found.sort()
        return found

    def exists(self, path: Path) -> bool:
        """Say whether there is a file or folder of this name."""
        return path.exists()

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it."""
        path.mkdir(parents=True, exist_ok=True)

    def rename(self, source: Path, target: Path) -> None:
        """Rename at once."""
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a file; it may be missing."""
        path.unlink(missing_ok=True)

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder; it may be missing."""
        if path.exists():
            path.rmdir()

    def sync_folder(self, path: Path) -> None:
        """Wait until the names in a folder are on the disk."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def sync_all(self, path: Path) -> None:
        """Sync the file system of `path`; `syncfs` is not in Python's library."""
        import ctypes

        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            library = ctypes.CDLL(None, use_errno=True)
            if library.syncfs(descriptor) != 0:
                number = ctypes.get_errno()
                raise OSError(number, os.strerror(number), str(path))
        finally:
            os.close(descriptor)

    def lock(self, path: Path) -> Lock | None:
        """Lock a file by its open description: seen by other processes (Apache Kafka too) and within this one."""
        file = OsFile(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.fcntl(file.fileno(), fcntl.F_OFD_SETLK, _WHOLE_FILE_EXCLUSIVE)
        except (BlockingIOError, PermissionError):
            return None
        return OsLock(file)

    def space(self, path: Path) -> Space:
        """Ask the file system."""
        status = os.statvfs(path)
        return Space(status.f_blocks * status.f_frsize, status.f_bavail * status.f_frsize)


class ReadOnlyFiles(OsFiles):
    """The file system for those who only look: nothing is made by opening it, and writes fail."""

    def open(self, path: Path) -> File:
        """Open a file that exists."""
        return OsFile(path, os.O_RDONLY)
