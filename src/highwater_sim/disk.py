"""A disk that remembers what was synced: a power cut takes the rest, in part.

Folders and files are nodes. A file's bytes are safe once the file was synced, a name once its folder was. A power cut
keeps, of what is not safe, what the seed decides: of names the first few changes, of appended bytes a prefix (the last
write torn), or zeros where they should be; of bytes written in place the old or the new ones.
"""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Final

from highwater.storage.files import Entry, Space

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path
    from random import Random

    from highwater.storage.files import BytesLike, File, Lock, MappedFile, MutableBytes

COLD_READS: Final = 0.02
"""How often bytes are not in the page cache."""
BIG_DISK_BYTES: Final = 1 << 40


class FileNode:
    """One file: its bytes as a process sees them, and as they are safe."""

    def __init__(self, top: str, modified_ms: int) -> None:
        self.top = top
        """The folder in the root that it is in, at any depth."""
        self.data = bytearray()
        self.safe = bytearray()
        self.is_appended_only = True
        """Since the last sync nothing that was safe has been changed."""
        self.modified_ms = modified_ms

    def sync(self) -> None:
        """Make all bytes safe."""
        if self.is_appended_only:
            self.safe += self.data[len(self.safe) :]
        else:
            self.safe = bytearray(self.data)
        self.is_appended_only = True

    def lose_power(self, random: Random) -> None:
        """Keep what is safe, and of the rest what the seed decides."""
        kept = bytearray(self.safe)
        if self.is_appended_only and self.data.startswith(self.safe):
            tail = self.data[len(self.safe) :]
            outcome = random.randrange(4)
            if outcome == 1:
                kept += tail
            elif outcome == 2:
                kept += tail[: random.randrange(len(tail) + 1)]
            elif outcome == 3:
                torn = random.randrange(len(tail) + 1)
                kept += tail[:torn] + bytes(len(tail) - torn)
        elif random.random() < 0.5:
            kept = bytearray(self.data)
        self.data, self.safe, self.is_appended_only = kept, bytearray(kept), True

    def flip(self, position: int, bit: int) -> None:
        """Turn one bit over, on the disk and in what is remembered of it."""
        for there in (self.data, self.safe):
            if position < len(there):
                there[position] ^= 1 << bit


class FolderNode:
    """One folder: its names as a process sees them, as they are safe, and the changes between."""

    def __init__(self) -> None:
        self.names: dict[str, Node] = {}
        self._safe: dict[str, Node] = {}
        self._changes: list[tuple[str, Node | None, str]] = []

    def put(self, name: str, node: Node, *, instead_of: str = "") -> None:
        """Give a node a name, in one step with taking another name of it away."""
        self.names[name] = node
        if instead_of:
            del self.names[instead_of]
        self._changes.append((name, node, instead_of))

    def take(self, name: str) -> None:
        """Take a name away."""
        del self.names[name]
        self._changes.append((name, None, ""))

    def sync(self) -> None:
        """Make all names safe."""
        self._safe = dict(self.names)
        self._changes.clear()

    def lose_power(self, random: Random) -> None:
        """Keep the names that are safe, and the first few changes of them."""
        names = self._safe
        for name, node, instead_of in self._changes[: random.randrange(len(self._changes) + 1)]:
            if node is None:
                names.pop(name, None)
            else:
                names[name] = node
                names.pop(instead_of, None)
        self.names, self._safe = names, dict(names)
        self._changes.clear()
        for _, node in sorted(names.items()):
            node.lose_power(random)


Node = FileNode | FolderNode


class SimDisk:
    """The disk of one machine: `Files` for the broker, switches for the faults."""

    def __init__(self, random: Random, now_ms: Callable[[], int]) -> None:
        self._random = random
        self._now_ms = now_ms
        self._root = FolderNode()
        self._locks: set[str] = set()
        self._mapped: dict[int, FileNode] = {}
        self.capacity_bytes: int | None = None
        """None: as much as it takes."""
        self.fails_with: int | None = None
        """An error number that every change and every sync fails with."""
        self.fails_in = ""
        """The only folder in the root where that is so; empty if everywhere is."""
        self.has_flipped_bit = False
        """Somewhere in a log a bit has turned over, and its batch does not match its checksum."""
        self.before_change: Callable[[], None] = lambda: None
        """Called before every change: a process may die here."""

    # Faults ---------------------------------------------------------------------------------------------------------

    def process_ended(self) -> None:
        """Let go of the locks that the process held, and of the memory that it had mapped."""
        self._locks.clear()
        for node in self._mapped.values():
            node.data = bytearray(node.data)
        self._mapped.clear()

    def lose_power(self) -> None:
        """Forget what was not synced, in part."""
        self.process_ended()
        self._root.lose_power(self._random)

    def wipe(self) -> None:
        """Be a new disk."""
        self.process_ended()
        self._root = FolderNode()

    def files(self, suffix: str) -> list[tuple[str, FileNode]]:
        """Return every file whose name ends so, by its path."""
        found: list[tuple[str, FileNode]] = []
        folders = [("", self._root)]
        while folders:
            path, folder = folders.pop()
            for name, node in folder.names.items():
                if isinstance(node, FolderNode):
                    folders.append((f"{path}/{name}", node))
                elif name.endswith(suffix):
                    found.append((f"{path}/{name}", node))
        return sorted(found, key=lambda item: item[0])

    def remove_at_rest(self, path: str) -> None:
        """Lose a file while no process uses the disk."""
        *folders, name = path.strip("/").split("/")
        folder: Node = self._root
        for part in folders:
            assert isinstance(folder, FolderNode)
            folder = folder.names[part]
        assert isinstance(folder, FolderNode)
        folder.take(name)
        folder.sync()

    def used_bytes(self) -> int:
        """Return how much is written."""
        return sum(len(node.data) for _, node in self.files(""))

    def change(self, top: str, *, needs_bytes: int = 0) -> None:
        """Let a change happen in a folder of the root, or fail."""
        self.before_change()
        if self.fails_with is not None and self.fails_in in {"", top}:
            raise OSError(self.fails_with, os.strerror(self.fails_with))
        if needs_bytes and self.capacity_bytes is not None and self.used_bytes() + needs_bytes > self.capacity_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def is_cold(self) -> bool:
        """Return whether the next bytes have to be read from the disk."""
        return self._random.random() < COLD_READS

    def now_ms(self) -> int:
        """Return the time for a file's date."""
        return self._now_ms()

    # Names ----------------------------------------------------------------------------------------------------------

    def _find(self, path: Path) -> Node | None:
        node: Node = self._root
        for part in path.parts[1:]:
            found = node.names.get(part) if isinstance(node, FolderNode) else None
            if found is None:
                return None
            node = found
        return node

    def _folder(self, path: Path) -> FolderNode:
        node = self._find(path)
        if not isinstance(node, FolderNode):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return node

    def _file(self, path: Path) -> FileNode:
        node = self._find(path)
        if not isinstance(node, FileNode):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return node

    def _made(self, path: Path) -> FileNode:
        node = self._find(path)
        if isinstance(node, FileNode):
            return node
        self.change(_top(path), needs_bytes=1)
        folder, made = self._folder(path.parent), FileNode(_top(path), self._now_ms())
        folder.put(path.name, made)
        return made

    # What storage asks of a disk ------------------------------------------------------------------------------------

    def open(self, path: Path) -> File:
        """Open a file that exists."""
        return SimFile(self, self._file(path))

    def create(self, path: Path) -> File:
        """Open or make a file."""
        return SimFile(self, self._made(path))

    def map(self, path: Path, size: int) -> MappedFile:
        """Map a file."""
        node = self._made(path)
        if len(node.data) < size:
            self.change(node.top)
            node.data = node.data + bytes(size - len(node.data))
        self._mapped[id(node)] = node
        return SimMappedFile(self, node, size)

    def list(self, folder: Path) -> list[Entry]:
        """Return what a folder holds, by name."""
        return sorted(
            Entry(name, True, 0, 0)
            if isinstance(node, FolderNode)
            else Entry(name, False, len(node.data), node.modified_ms)
            for name, node in self._folder(folder).names.items()
        )

    def exists(self, path: Path) -> bool:
        """Say whether there is a file or folder of this name."""
        return self._find(path) is not None

    def make_folder(self, path: Path) -> None:
        """Make a folder and those above it."""
        folder = self._root
        for part in path.parts[1:]:
            found = folder.names.get(part)
            if found is None:
                self.change(_top(path))
                found = FolderNode()
                folder.put(part, found)
            if not isinstance(found, FolderNode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))
            folder = found

    def rename(self, source: Path, target: Path) -> None:
        """Rename at once. Between two folders a power cut may leave a file under both names, or under none."""
        folder = self._folder(source.parent)
        node = folder.names.get(source.name)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
        self.change(_top(source))
        if source.parent == target.parent:
            folder.put(target.name, node, instead_of=source.name)
        else:
            self._folder(target.parent).put(target.name, node)
            folder.take(source.name)

    def remove(self, path: Path) -> None:
        """Remove a file; it may be missing."""
        if self._find(path) is not None:
            self.change(_top(path))
            self._folder(path.parent).take(path.name)

    def remove_folder(self, path: Path) -> None:
        """Remove an empty folder; it may be missing."""
        node = self._find(path)
        if isinstance(node, FolderNode):
            if node.names:
                raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), str(path))
            self.change(_top(path))
            self._folder(path.parent).take(path.name)

    def sync_folder(self, path: Path) -> None:
        """Make the names in a folder safe."""
        self.change(_top(path))
        self._folder(path).sync()

    def sync_all(self, path: Path) -> None:
        """Make everything safe."""
        self.change(_top(path))
        folders = [self._root]
        while folders:
            folder = folders.pop()
            folder.sync()
            for node in folder.names.values():
                if isinstance(node, FolderNode):
                    folders.append(node)
                else:
                    node.sync()

    def lock(self, path: Path) -> Lock | None:
        """Take the lock, or return None when another process holds it."""
        self._made(path)
        if str(path) in self._locks:
            return None
        self._locks.add(str(path))
        return SimLock(self._locks, str(path))

    def space(self, path: Path) -> Space:
        """Return how large the disk is."""
        del path
        total = self.capacity_bytes if self.capacity_bytes is not None else BIG_DISK_BYTES
        return Space(total, total - self.used_bytes())


def _top(path: Path) -> str:
    """Return the folder in the root that a path leads through."""
    return path.parts[1] if len(path.parts) > 1 else ""


class SimFile:
    """An open file."""

    def __init__(self, disk: SimDisk, node: FileNode) -> None:
        self._disk = disk
        self._node = node

    def fileno(self) -> int:
        """There is no descriptor: a simulated transport reads the file itself."""
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    def size(self) -> int:
        """Return the length in bytes."""
        return len(self._node.data)

    def write(self, buffers: Sequence[BytesLike], position: int) -> int:
        """Write all buffers."""
        data, node = b"".join(buffers), self._node
        self._disk.change(node.top, needs_bytes=len(data))
        size = len(node.data)
        if position < len(node.safe):
            node.is_appended_only = False
        if position > size:
            node.data.extend(bytes(position - size))
        node.data[position : position + len(data)] = data
        node.modified_ms = self._disk.now_ms()
        return len(data)

    def read(self, position: int, length: int) -> bytes:
        """Return up to `length` bytes."""
        return bytes(self._node.data[position : position + length])

    def read_without_waiting(self, position: int, length: int) -> bytes | None:
        """Return exactly these bytes, unless they are cold or not there."""
        if self._disk.is_cold():
            return None
        data = self.read(position, length)
        return data if len(data) == length else None

    def cut(self, size: int) -> None:
        """Make the file `size` bytes long."""
        node = self._node
        self._disk.change(node.top)
        if size < len(node.safe):
            node.is_appended_only = False
        # A new array: a log that was given up may still have the old one mapped.
        node.data = node.data[:size] + bytes(max(0, size - len(node.data)))

    def sync(self) -> None:
        """Make the bytes safe."""
        self._disk.change(self._node.top)
        self._node.sync()


class SimMappedFile:
    """A file as memory. What is stored there is unsafe until the file is synced."""

    def __init__(self, disk: SimDisk, node: FileNode, size: int) -> None:
        self._disk = disk
        self._top = node.top
        self._view = memoryview(node.data)[:size]
        node.is_appended_only = False

    @property
    def memory(self) -> MutableBytes:
        """The bytes."""
        return self._view  # type: ignore[return-value]  # indexed and packed into, as the others are

    def reserve(self, start: int, length: int) -> None:
        """Have space set aside."""
        del start
        self._disk.change(self._top, needs_bytes=length)

    def close(self) -> None:
        """Let go of the memory."""
        self._view.release()


class SimLock:
    """A lock on a log dir."""

    def __init__(self, locks: set[str], path: str) -> None:
        self._locks = locks
        self._path = path

    def release(self) -> None:
        """Let another process have it."""
        self._locks.discard(self._path)
