"""The transaction index (`.txnindex`): the aborted transactions of a segment, for read_committed readers.

Entries of 34 bytes: version, producer id, first and last offset, and the last stable offset when it was written, which
tells a reader where it may stop looking. As in Apache Kafka, so that its tools read ours.
"""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from highwater.storage.errors import DamagedSegment
from highwater.storage.files import File, Files, write_all

_ENTRY: Final = struct.Struct(">hqqqq")
_VERSION: Final = 0


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted by the marker at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    """The aborted transactions that ended in one segment, in order of their markers. Most segments have no file."""

    suffix: Final = ".txnindex"

    __slots__ = ("_base_offset", "_file", "_files", "_folder", "_size")

    def __init__(self, files: Files, folder: Path, base_offset: int, *, size: int) -> None:
        self._files = files
        self._folder = folder
        self._base_offset = base_offset
        self._file: File | None = None
        self._size = size

    @property
    def path(self) -> Path:
        """Where the file is, if there is one."""
        return self._folder / f"{self._base_offset:020d}{self.suffix}"

    @property
    def size(self) -> int:
        """The size of the file, in bytes."""
        return self._size

    def _open(self) -> File:
        if self._file is None:
            self._file = self._files.create(self.path)
        return self._file

    def append(self, aborted: AbortedTransaction) -> None:
        """Add the transaction whose abort marker was just written."""
        write_all(self._open(), [_ENTRY.pack(_VERSION, *aborted)], self._size, _ENTRY.size)
        self._size += _ENTRY.size

    def __iter__(self) -> Iterator[AbortedTransaction]:
        if self._size:
            for version, *fields in _ENTRY.iter_unpack(self._open().read(0, self._size)):
                assert version == _VERSION, "checked when the segment was loaded"
                yield AbortedTransaction(*fields)

    def collect(self, start: int, end: int, found: list[AbortedTransaction]) -> bool:
        """Add the transactions with records between two offsets to `found`; say whether later segments have none."""
        for aborted in self:
            if aborted.last_offset >= start and aborted.first_offset < end:
                found.append(aborted)
            if aborted.last_stable_offset >= end:
                return True
        return False

    def cut(self, offset: int) -> None:
        """Forget the transactions that ended at or after `offset`."""
        if self._size:
            self._resize(_ENTRY.size * sum(aborted.last_offset < offset for aborted in self))

    def reset(self) -> None:
        """Forget everything, to build the index anew."""
        if self._size:
            self._resize(0)

    def _resize(self, size: int) -> None:
        self._open().cut(size)
        self._size = size

    def check(self) -> None:
        """Raise DamagedSegment unless every entry can be true."""
        if not self._size:
            return
        whole = self._size % _ENTRY.size == 0
        if not whole or not all(
            version == _VERSION and self._base_offset <= last_offset and first_offset <= last_offset
            for version, _, first_offset, last_offset, _ in _ENTRY.iter_unpack(self._open().read(0, self._size))
        ):
            raise DamagedSegment(0, "without a transaction index that can be true")

    def close(self) -> None:
        """Let go of the file."""
        self._file = None


def read_entries(file: File) -> list[AbortedTransaction]:
    """Return the entries of a whole file."""
    size = file.size()
    entries = file.read(0, size - size % _ENTRY.size)
    return [AbortedTransaction(*fields) for _, *fields in _ENTRY.iter_unpack(entries)]
