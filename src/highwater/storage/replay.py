"""What the batches of a log mean for its producers and transactions: the same when written and when read again."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from highwater.protocol.records.batch import BatchHeader
from highwater.protocol.records.control import Marker, MarkerType, read_marker
from highwater.protocol.records.record import read_records
from highwater.storage import snapshot
from highwater.storage.files import Files
from highwater.storage.producer_state import ProducerStates
from highwater.storage.segment import Segment
from highwater.storage.transactions import Transactions
from highwater.storage.txn_index import AbortedTransaction

_NOT_READ: Final = memoryview(b"")


class Replay:
    """Producers and transactions as the batches below `offset` made them."""

    __slots__ = ("offset", "producers", "snapshot_offset", "transactions")

    def __init__(self, offset: int, producers: ProducerStates, *, snapshot_offset: int | None = None) -> None:
        self.offset = offset
        self.snapshot_offset = snapshot_offset
        """Where it began, if that was a snapshot."""
        self.producers = producers
        self.transactions = Transactions(producers)

    def follow(self, header: BatchHeader, batch: memoryview) -> AbortedTransaction | None:
        """Go on by one batch, of which only those of control batches are looked into; see `follow_transaction`."""
        self.offset = header.next_offset
        if header.producer_id < 0:
            return None
        remember(self.producers, header, batch)
        self.producers.commit_staged()
        return follow_transaction(self.transactions, header, batch)


def remember(producers: ProducerStates, header: BatchHeader, batch: memoryview) -> None:
    """Stage what a batch that was accepted before says of its producer."""
    if header.producer_id < 0:
        return
    if not header.is_control:
        producers.stage_batch(
            header.producer_id,
            header.producer_epoch,
            header.last_sequence,
            header.base_offset,
            header.last_offset,
            header.max_timestamp,
            transactional=header.is_transactional,
        )
        return
    marker = marker_of(batch)
    if marker is not None:
        producers.stage_marker(
            header.producer_id,
            header.producer_epoch,
            coordinator_epoch=marker.coordinator_epoch,
            timestamp=header.max_timestamp,
        )


def follow_transaction(transactions: Transactions, header: BatchHeader, batch: memoryview) -> AbortedTransaction | None:
    """Begin or end the transaction of a batch; return what the transaction index must hold if it aborts records."""
    if not header.is_transactional:
        return None
    if not header.is_control:
        transactions.begin(header.producer_id, header.base_offset)
        return None
    marker = marker_of(batch)
    if marker is None:
        return None
    marker_offset = header.last_offset
    first_offset = transactions.end(header.producer_id, marker_offset)
    if first_offset < 0 or marker.type is not MarkerType.ABORT:
        return None
    last_stable_offset = transactions.first_open_offset(otherwise=marker_offset + 1)
    return AbortedTransaction(header.producer_id, first_offset, marker_offset, last_stable_offset)


def marker_of(batch: memoryview) -> Marker | None:
    """Return the transaction marker of a control batch; None when compaction has removed it."""
    records = read_records(batch)
    return read_marker(records[0]) if records else None


def replay_up_to(
    files: Files, folder: Path, segments: Sequence[Segment], offset: int, snapshots: Iterable[int], notes: list[str]
) -> Replay:
    """Return what was known at `offset`: the newest good snapshot below it, and the batches since then.

    `snapshots` are the offsets of those there are; one that is damaged is removed, with a note.
    """
    replay = Replay(segments[0].base_offset, ProducerStates())
    for taken_at in sorted((taken_at for taken_at in snapshots if taken_at <= offset), reverse=True):
        path = snapshot.path_of(folder, taken_at)
        try:
            replay = Replay(taken_at, ProducerStates(snapshot.read(files, path)), snapshot_offset=taken_at)
            break
        except snapshot.DamagedSnapshot as error:
            notes.append(f"{error}; the log is read instead")
            files.remove(path)
    for segment, following in zip(segments, [*segments[1:], None], strict=True):
        if following is None or following.base_offset > replay.offset:
            _replay_segment(replay, segment, offset)
    replay.offset = offset
    return replay


def _replay_segment(replay: Replay, segment: Segment, up_to: int) -> None:
    found = segment.find(replay.offset) if replay.offset < up_to else None
    if found is None:
        return
    for position, header in segment.headers(found[0]):
        if header.base_offset >= up_to:
            return
        batch = memoryview(segment.file.read(position, header.size)) if header.is_control else _NOT_READ
        replay.follow(header, batch)
