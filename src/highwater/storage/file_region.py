"""A run of bytes in a segment, for `sendfile` or for reading."""

from typing import Final

from highwater.storage.files import File

_PROBE_EVERY_BYTES: Final = 256 * 1024
_WARM_CHUNK_BYTES: Final = 256 * 1024


class FileRegion:
    """`length` bytes of `file` from `position`; holding it keeps the file open, even after the segment is deleted."""

    __slots__ = ("_content", "file", "length", "position")

    def __init__(self, file: File, position: int, length: int, content: bytes | None = None) -> None:
        self.file = file
        self.position = position
        self.length = length
        self._content = content
        """The bytes, if whoever found the region has read them by the way: they need not be read again."""

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"FileRegion(position={self.position}, length={self.length})"

    def read(self) -> bytes:
        """Return the bytes; fewer than `length` when the segment was truncated in the meantime."""
        return self.file.read(self.position, self.length)

    def read_without_waiting(self) -> bytes | None:
        """Return the bytes if they are in memory, else None."""
        return self._content or self.file.read_without_waiting(self.position, self.length)

    def is_in_memory(self) -> bool:
        """Return whether the bytes seem to be in memory: `sendfile` of a page that is not would block (KAFKA-7504)."""
        last = self.position + self.length - 1
        for probe in range(self.position, last, _PROBE_EVERY_BYTES):
            if self.file.read_without_waiting(probe, 1) is None:
                return False
        return self.file.read_without_waiting(last, 1) is not None

    def warm(self) -> None:
        """Bring the bytes into memory, however long the disk takes: for a thread."""
        for start in range(self.position, self.position + self.length, _WARM_CHUNK_BYTES):
            self.file.read(start, min(_WARM_CHUNK_BYTES, self.position + self.length - start))
