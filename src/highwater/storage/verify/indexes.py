"""Check the indexes of a segment against its batches, in one walk over both.

Entries rise with the batches that they point to, so each check keeps its place among its entries while the batches
pass by, and an entry that is passed over points to nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, TypeAlias

from highwater.model.errors import KafkaError
from highwater.protocol.records.batch import BatchHeader
from highwater.protocol.records.control import MarkerType, read_marker
from highwater.protocol.records.record import read_records
from highwater.storage import offset_index, time_index, txn_index
from highwater.storage.files import File, Files
from highwater.storage.txn_index import AbortedTransaction
from highwater.storage.verify.finding import Finding

FoundBatch: TypeAlias = tuple[int, BatchHeader, memoryview]
"""Position, header and bytes, as `batch_scan.batches` yields them."""

_NOTHING: Final[tuple[Finding, ...]] = ()
_PAST_ALL: Final = 2**63
"""Where the next entry points when there is none."""


class IndexCheck(ABC):
    """One index, followed batch by batch."""

    entry_bytes: ClassVar[int]

    def __init__(self, path: Path, file: File) -> None:
        self._path = path
        self._size = file.size()
        self._load(file, base_offset=int(path.stem))

    def begin(self) -> Iterator[Finding]:
        """Look at the file alone."""
        leftover = self._size % self.entry_bytes
        if leftover:
            yield Finding(self._path, f"ends with {leftover} bytes that are no entry", self._size - leftover)
        yield from self._check_entries()

    @abstractmethod
    def follow(self, found: FoundBatch) -> Sequence[Finding]:
        """Look at the entries for the next batch."""

    @abstractmethod
    def finish(self) -> Sequence[Finding]:
        """Look at the entries that are left when all batches have passed."""

    @abstractmethod
    def _load(self, file: File, *, base_offset: int) -> None: ...

    @abstractmethod
    def _check_entries(self) -> Iterator[Finding]: ...


class OffsetIndexCheck(IndexCheck):
    """Each entry is the position and the last offset of a batch."""

    entry_bytes = 8

    def _load(self, file: File, *, base_offset: int) -> None:
        self._entries = offset_index.read_entries(file, base_offset)
        self._next = -1
        self._advance()

    def _check_entries(self) -> Iterator[Finding]:
        for number, (before, after) in enumerate(zip(self._entries, self._entries[1:], strict=False), 1):
            if after.offset <= before.offset or after.position <= before.position:
                self._entries = self._entries[:number]  # the rest cannot be followed
                problem = (
                    f"entry {number} points to byte {after.position} of the log, the one before it to {before.position}"
                )
                yield Finding(self._path, problem, number * self.entry_bytes, after.offset)
                return

    def follow(self, found: FoundBatch) -> Sequence[Finding]:
        """Compare the entry for this batch, if it has one."""
        position, header, _ = found
        if self._position > position:
            return _NOTHING
        findings = []
        while self._position < position:
            findings.append(self._finding("points into the middle of a batch"))
        if self._position == position:
            if self._entries[self._next].offset != header.last_offset:
                findings.append(self._finding(f"names a batch that ends with offset {header.last_offset}"))
            else:
                self._advance()
        return findings

    def finish(self) -> Sequence[Finding]:
        """Refuse entries beyond the end of the log."""
        findings = []
        while self._position < _PAST_ALL:
            findings.append(self._finding("points beyond the end of the log"))
        return findings

    def _finding(self, problem: str) -> Finding:
        offset, position = self._entries[self._next]
        finding = Finding(
            self._path, f"entry for byte {position} of the log {problem}", self._next * self.entry_bytes, offset
        )
        self._advance()
        return finding

    def _advance(self) -> None:
        self._next += 1
        self._position = self._entries[self._next].position if self._next < len(self._entries) else _PAST_ALL


class TimeIndexCheck(IndexCheck):
    """Each entry is the largest timestamp so far, and an offset of the batch that has it."""

    entry_bytes = 12

    def _load(self, file: File, *, base_offset: int) -> None:
        self._entries = time_index.read_entries(file, base_offset)
        self._largest = -1
        self._next = -1
        self._advance()

    def _check_entries(self) -> Iterator[Finding]:
        for number, (before, after) in enumerate(zip(self._entries, self._entries[1:], strict=False), 1):
            if after.timestamp <= before.timestamp or after.offset < before.offset:
                self._entries = self._entries[:number]  # the rest cannot be followed
                problem = f"entry {number} has timestamp {after.timestamp}, the one before it {before.timestamp}"
                yield Finding(self._path, problem, number * self.entry_bytes, after.offset)
                return

    def follow(self, found: FoundBatch) -> Sequence[Finding]:
        """Compare the entries for this batch, if it has any."""
        _, header, _ = found
        self._largest = max(self._largest, header.max_timestamp)
        if self._offset > header.last_offset:
            return _NOTHING
        findings = []
        while self._offset < header.base_offset:
            findings.append(self._finding("names an offset that no batch holds"))
        while self._offset <= header.last_offset:
            timestamp = self._entries[self._next].timestamp
            if timestamp != header.max_timestamp:
                findings.append(self._finding(f"names a batch whose largest timestamp is {header.max_timestamp}"))
            elif timestamp != self._largest:
                findings.append(self._finding(f"is behind an earlier batch, which has timestamp {self._largest}"))
            else:
                self._advance()
        return findings

    def finish(self) -> Sequence[Finding]:
        """Refuse entries beyond the end of the log."""
        findings = []
        while self._offset < _PAST_ALL:
            findings.append(self._finding("names an offset beyond the end of the log"))
        return findings

    def _finding(self, problem: str) -> Finding:
        timestamp, offset = self._entries[self._next]
        finding = Finding(
            self._path, f"entry for timestamp {timestamp} {problem}", self._next * self.entry_bytes, offset
        )
        self._advance()
        return finding

    def _advance(self) -> None:
        self._next += 1
        self._offset = self._entries[self._next].offset if self._next < len(self._entries) else _PAST_ALL


class TransactionIndexCheck(IndexCheck):
    """Each entry ends at an abort marker of its producer."""

    entry_bytes = 34

    def _load(self, file: File, *, base_offset: int) -> None:  # noqa: ARG002 - its offsets are absolute
        self._entries = txn_index.read_entries(file)
        self._awaited = {entry.last_offset: (number, entry) for number, entry in enumerate(self._entries)}

    def _check_entries(self) -> Iterator[Finding]:
        for number, entry in enumerate(self._entries):
            if entry.first_offset > entry.last_offset:
                yield self._finding(number, entry, f"begins at offset {entry.first_offset}, after its end")

    def follow(self, found: FoundBatch) -> Sequence[Finding]:
        """Compare the entry for this marker, if the batch is one."""
        _, header, batch = found
        if not header.is_control or not self._awaited:
            return _NOTHING
        number, entry = self._awaited.pop(header.last_offset, (0, None))
        if entry is None or (header.producer_id == entry.producer_id and _is_abort(batch)):
            return _NOTHING
        return (self._finding(number, entry, "does not end at an abort marker of this producer"),)

    def finish(self) -> Sequence[Finding]:
        """Refuse entries for which there was no marker."""
        return [
            self._finding(number, entry, "ends where there is no marker") for number, entry in self._awaited.values()
        ]

    def _finding(self, number: int, entry: AbortedTransaction, problem: str) -> Finding:
        text = f"aborted transaction of producer {entry.producer_id} {problem}"
        return Finding(self._path, text, number * self.entry_bytes, entry.last_offset)


def _is_abort(batch: memoryview) -> bool:
    try:
        (record,) = read_records(batch)
        marker = read_marker(record)
    except (KafkaError, ValueError):
        return False
    return marker is not None and marker.type is MarkerType.ABORT


CHECK_BY_SUFFIX: Final[Mapping[str, type[IndexCheck]]] = {
    ".index": OffsetIndexCheck,
    ".timeindex": TimeIndexCheck,
    ".txnindex": TransactionIndexCheck,
}


def index_check(files: Files, path: Path) -> IndexCheck:
    """Return the check for the index at `path`. Raises OSError when it cannot be read."""
    return CHECK_BY_SUFFIX[path.suffix](path, files.open(path))
