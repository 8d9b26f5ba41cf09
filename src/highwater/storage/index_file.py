"""A memory-mapped file of fixed-size entries: what the offset index and the time index share.

Nothing is opened before the first look. The file is made sparsely as long as it may become when the first entry is
written, and trimmed to its entries when the segment is closed or rolled.
"""

from pathlib import Path
from typing import ClassVar, Final

from highwater.storage.files import File, Files, MappedFile, MutableBytes

_RESERVE_BYTES: Final = 4096
_READ_BYTES: Final = 64 * 1024
_NOTHING: Final = bytearray()


class IndexFile:
    """The entries of one index; `_end` is the number of bytes in use."""

    suffix: ClassVar[str]
    entry_bytes: ClassVar[int]

    __slots__ = (
        "_end",
        "_files",
        "_folder",
        "_mapped",
        "_memory",
        "_was_read",
        "_writable_end",
        "base_offset",
        "max_bytes",
    )

    def __init__(self, files: Files, folder: Path, base_offset: int, *, size: int, max_bytes: int) -> None:
        self._files = files
        self._folder = folder
        self.base_offset = base_offset
        self.max_bytes = max_bytes - max_bytes % self.entry_bytes
        self._mapped: MappedFile | None = None
        self._memory: MutableBytes = _NOTHING
        self._end = size - size % self.entry_bytes
        self._writable_end = 0
        self._was_read = False

    @property
    def path(self) -> Path:
        """Where the file is."""
        return self._folder / f"{self.base_offset:020d}{self.suffix}"

    @property
    def entry_count(self) -> int:
        """How many entries there are."""
        return self._end // self.entry_bytes

    @property
    def free_entries(self) -> int:
        """How many entries still fit."""
        return (self.max_bytes - self._end) // self.entry_bytes

    def _touch(self) -> MutableBytes:
        """Return the memory of the entries, mapped when this is the first look."""
        if self._mapped is None and self._end:
            self._mapped = self._files.map(self.path, self._end)
            self._memory = self._mapped.memory
        return self._memory

    @property
    def is_at_hand(self) -> bool:
        """Whether a look needs no disk, as far as we know: the file is mapped, or was just read."""
        return self._mapped is not None or self._was_read or not self._end

    def read_all(self) -> None:
        """Bring all entries into memory, however long the disk takes: for a thread."""
        self._files.open(self.path).read(0, self._end)
        self._was_read = True

    def _make_room(self) -> None:
        """Map the file at its full length, and have the disk set aside space for the next entries."""
        assert self._end + self.entry_bytes <= self.max_bytes, "the log rolls before an index is full"
        if self._mapped is None or len(self._memory) < self.max_bytes:
            self._unmap()
            self._mapped = self._files.map(self.path, self.max_bytes)
            self._memory = self._mapped.memory
        length = min(_RESERVE_BYTES, self.max_bytes - self._end)
        self._mapped.reserve(self._end, length)
        self._writable_end = self._end + length - self.entry_bytes + 1

    def _unmap(self) -> None:
        if self._mapped is not None:
            self._mapped.close()
        self._mapped, self._memory, self._writable_end = None, _NOTHING, 0

    def _keep(self, entry_count: int) -> None:
        """Forget all entries but the first `entry_count`."""
        self._end = entry_count * self.entry_bytes

    def close(self, *, keep_file: bool) -> None:
        """Let go of the memory; `keep_file` leaves a file that is exactly as long as its entries, be it empty."""
        self._unmap()
        if keep_file:
            self._files.create(self.path).cut(self._end)

    def reset(self, at_least_entries: int) -> None:
        """Forget every entry, to build the index anew with room for a number of them."""
        self._unmap()
        self._end = 0
        self.max_bytes = max(self.max_bytes, at_least_entries * self.entry_bytes)
        self._files.create(self.path).cut(0)


def used_bytes(file: File, entry_bytes: int) -> bytes:
    """Return the entries of an index without the zeros after them, which are space for entries to come.

    An index that is in use, or whose broker was killed, is as long as it may become: what is never read costs nothing.
    """
    content = bytearray()
    size = file.size()
    while len(content) < size:
        chunk = file.read(len(content), min(_READ_BYTES, size - len(content)))
        content += chunk
        if not any(chunk):
            break
    used = len(content.rstrip(b"\0"))
    end = used + -used % entry_bytes
    return bytes(content[: min(end, size - size % entry_bytes)])
