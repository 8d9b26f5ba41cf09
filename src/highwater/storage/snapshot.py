"""Producer snapshots (`.snapshot`): the producers of a log as they were at an offset.

Kafka's layout: version, CRC-32C of what follows, count, entries. It knows the last batch of each producer only; we
write the batches before it behind the entries, where Kafka's reader does not look, so that a retry of any of the last
five is recognised after a restart too.
"""

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from crc32c import crc32c

from highwater.model.errors import StorageError
from highwater.storage.files import Files, read_file, replace_file
from highwater.storage.producer_state import (
    NO_OFFSET,
    REMEMBERED_BATCHES,
    ProducedBatch,
    ProducerState,
)

SUFFIX: Final = ".snapshot"
_VERSION: Final = 1
_HEADER: Final = struct.Struct(">hI")
_COUNT: Final = struct.Struct(">i")
_ENTRY: Final = struct.Struct(">qhiqiqiq")
_EARLIER_MARK: Final = b"HWEB"
_EARLIER_BATCH: Final = struct.Struct(">qiqiq")


class DamagedSnapshot(StorageError):
    """A snapshot file that cannot be believed; the log can be replayed instead."""


def path_of(folder: Path, offset: int) -> Path:
    """Return where the snapshot at an offset is."""
    return folder / f"{offset:020d}{SUFFIX}"


def offsets(files: Files, folder: Path) -> list[int]:
    """Return the offsets of all snapshots in a folder."""
    return [int(entry.name[:20]) for entry in files.list(folder) if is_snapshot(entry.name)]


def is_snapshot(name: str) -> bool:
    """Say whether a file is a snapshot by its name."""
    return name.endswith(SUFFIX) and len(name) == 20 + len(SUFFIX) and name[:20].isdecimal()


def write(files: Files, path: Path, states: Iterable[ProducerState]) -> None:
    """Write a snapshot; it reaches the disk with the next flush, and a torn one is told by its checksum."""
    entries, earlier = [], []
    for state in states:
        last = state.batches[-1] if state.batches else ProducedBatch(-1, NO_OFFSET, 0, state.last_timestamp)
        entries.append(
            _ENTRY.pack(
                state.producer_id,
                state.epoch,
                last.last_sequence,
                last.last_offset,
                last.offset_delta,
                state.last_timestamp,
                state.coordinator_epoch,
                state.transaction_first_offset,
            )
        )
        earlier += [_EARLIER_BATCH.pack(state.producer_id, *batch) for batch in state.batches[:-1]]
    parts = [_COUNT.pack(len(entries)), *entries]
    if earlier:
        parts += [_EARLIER_MARK, _COUNT.pack(len(earlier)), *earlier]
    body = b"".join(parts)
    replace_file(files, path, _HEADER.pack(_VERSION, crc32c(body)) + body, sync=False)


def read(files: Files, path: Path) -> list[ProducerState]:
    """Return the producers of a snapshot. Raises DamagedSnapshot."""
    content = read_file(files, path) or b""
    body = memoryview(content)[_HEADER.size :]
    if len(body) < _COUNT.size:
        raise DamagedSnapshot(f"{path} is too short for a producer snapshot")
    version, crc = _HEADER.unpack_from(content)
    if version != _VERSION:
        raise DamagedSnapshot(f"{path} has version {version}, known is {_VERSION}")
    if crc32c(body) != crc:
        raise DamagedSnapshot(f"{path} does not match its checksum")
    (count,) = _COUNT.unpack_from(body)
    end = _COUNT.size + count * _ENTRY.size
    if count < 0 or end > len(body):
        raise DamagedSnapshot(f"{path} holds fewer than its {count} producers")
    earlier = _read_earlier(body[end:])
    return [_state(entry, earlier) for entry in _ENTRY.iter_unpack(body[_COUNT.size : end])]


def _state(entry: tuple[int, ...], earlier: dict[int, list[ProducedBatch]]) -> ProducerState:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp, coordinator_epoch, first_offset = entry
    batches: tuple[ProducedBatch, ...] = ()
    if last_offset >= 0:
        last = ProducedBatch(last_sequence, last_offset, offset_delta, timestamp)
        batches = (*earlier.get(producer_id, ())[1 - REMEMBERED_BATCHES :], last)
    return ProducerState(producer_id, epoch, batches, timestamp, coordinator_epoch, first_offset)


def _read_earlier(tail: memoryview) -> dict[int, list[ProducedBatch]]:
    """Return the batches before the last one, by producer; none in a snapshot that Kafka wrote."""
    earlier: dict[int, list[ProducedBatch]] = {}
    if bytes(tail[: len(_EARLIER_MARK)]) == _EARLIER_MARK:
        for producer_id, *batch in _EARLIER_BATCH.iter_unpack(tail[len(_EARLIER_MARK) + _COUNT.size :]):
            earlier.setdefault(producer_id, []).append(ProducedBatch(*batch))
    return earlier
