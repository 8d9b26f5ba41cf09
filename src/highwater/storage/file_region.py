"""A run of bytes in a segment, for `sendfile` or for reading."""

from highwater.storage.files import File


class FileRegion:
    """`length` bytes of `file` from `position`; holding it keeps the file open, even after the segment is deleted."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: File, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __repr__(self) -> str:
        return f"FileRegion(position={self.position}, length={self.length})"

    def read(self) -> bytes:
        """Return the bytes; fewer than `length` when the segment was truncated in the meantime."""
        return self.file.read(self.position, self.length)
