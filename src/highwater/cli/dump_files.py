"""What the files of a log hold, as documents: one for each batch, record or entry."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

from highwater.cli.failures import CommandFailed
from highwater.cli.internal_topics import (
    GROUP_RECORDS,
    OFFSETS_TOPIC,
    TRANSACTION_RECORDS,
    TRANSACTIONS_TOPIC,
    Kind,
    decode,
)
from highwater.cli.record_text import as_json_value
from highwater.model.errors import KafkaError
from highwater.protocol.records.batch import BatchHeader
from highwater.protocol.records.compression import Codec
from highwater.protocol.records.control import read_marker
from highwater.protocol.records.record import Record, read_records
from highwater.protocol.records.validate import check_batch
from highwater.storage import batch_scan, checkpoints, offset_index, snapshot, time_index, txn_index
from highwater.storage.errors import DamagedSegment
from highwater.storage.files import Files
from highwater.storage.leader_epochs import FILE_NAME as LEADER_EPOCHS
from highwater.storage.leader_epochs import LeaderEpochs
from highwater.storage.verify.log_dir import OFFSET_CHECKPOINTS

Document: TypeAlias = dict[str, Any]

_BASE_OFFSET: Final = re.compile(r"(\d{20})\.(log|index|timeindex|txnindex|snapshot)")


@dataclass(frozen=True, slots=True)
class Wanted:
    """How much of a segment to show."""

    records: bool = False
    internal: Mapping[int, Kind] | None = None


def documents(files: Files, path: Path, wanted: Wanted) -> Iterator[Document]:
    """Return all that a file holds. Raises CommandFailed for what is no file of a log, or is not there."""
    name = _BASE_OFFSET.fullmatch(path.name)
    if not name and path.name not in _CHECKPOINTS:
        raise CommandFailed(f"{path} is not a file of a log; known are {', '.join(KNOWN_FILES)}")
    if not files.exists(path):
        raise CommandFailed(f"{path} does not exist")
    if not name:
        return _CHECKPOINTS[path.name](files, path)
    return _BY_SUFFIX[name[2]](files, path, int(name[1]), wanted)


def files_of(files: Files, folder: Path) -> list[Path]:
    """Return the files of a partition or a log dir that can be shown."""
    names = [entry.name for entry in files.list(folder)]
    return [folder / name for name in names if name in _CHECKPOINTS or _BASE_OFFSET.fullmatch(name)]


def kinds_by_folder(path: Path) -> Mapping[int, Kind] | None:
    """Return how to decode the records of a segment, if its folder is one of an internal topic."""
    topic = path.absolute().parent.name.rpartition("-")[0]
    return {OFFSETS_TOPIC: GROUP_RECORDS, TRANSACTIONS_TOPIC: TRANSACTION_RECORDS}.get(topic)


def _segment(files: Files, path: Path, _base_offset: int, wanted: Wanted) -> Iterator[Document]:
    file = files.open(path)
    try:
        for position, header, batch in batch_scan.batches(file, 0, file.size()):
            yield {"type": "batch", "position": position, **_batch(header, batch)}
            if wanted.records:
                yield from _records(header, batch, wanted.internal)
    except DamagedSegment as damage:
        raise CommandFailed(f"{path} is {damage.message}") from None


def _batch(header: BatchHeader, batch: memoryview) -> Document:
    try:
        check_batch(batch)
        is_valid = True
    except KafkaError:
        is_valid = False
    return {
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "size": header.size,
        "codec": codec_name(header.codec),
        "leader_epoch": header.leader_epoch,
        "timestamp_type": "LogAppendTime" if header.uses_log_append_time else "CreateTime",
        "base_timestamp": header.base_timestamp,
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "delete_horizon_ms": header.delete_horizon_ms,
        "crc": header.crc,
        "is_valid": is_valid,
    }


def codec_name(codec: int) -> str:
    """Return a codec as users know it."""
    return Codec(codec).name.lower() if codec in Codec.__members__.values() else f"unknown codec {codec}"


def _records(header: BatchHeader, batch: memoryview, internal: Mapping[int, Kind] | None) -> Iterator[Document]:
    try:
        records = read_records(batch)
    except KafkaError as error:
        yield {"type": "unreadable", "base_offset": header.base_offset, "problem": error.message}
        return
    for record in records:
        document: Document = {
            "type": "record",
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": as_json_value(record.key),
            "value": as_json_value(record.value),
            "headers": [[name, as_json_value(value)] for name, value in record.headers],
        }
        if header.is_control:
            document |= _marker(record)
        elif internal and (decoded := decode(internal, record.key, record.value)):
            document |= {"decoded": decoded.as_document(), "text": decoded.as_text()}
        yield document


def _marker(record: Record) -> Document:
    try:
        marker = read_marker(record)
    except KafkaError as error:
        return {"marker": error.message}
    return {"marker": marker.type.name, "coordinator_epoch": marker.coordinator_epoch} if marker else {}


def _offset_index(files: Files, path: Path, base_offset: int, _wanted: Wanted) -> Iterator[Document]:
    for offset, position in offset_index.read_entries(files.open(path), base_offset):
        yield {"type": "offset_index", "offset": offset, "position": position}


def _time_index(files: Files, path: Path, base_offset: int, _wanted: Wanted) -> Iterator[Document]:
    for timestamp, offset in time_index.read_entries(files.open(path), base_offset):
        yield {"type": "time_index", "timestamp": timestamp, "offset": offset}


def _transaction_index(files: Files, path: Path, _base_offset: int, _wanted: Wanted) -> Iterator[Document]:
    for aborted in txn_index.read_entries(files.open(path)):
        yield {"type": "aborted_transaction", **aborted._asdict()}


def _snapshot(files: Files, path: Path, _base_offset: int, _wanted: Wanted) -> Iterator[Document]:
    for state in snapshot.read(files, path):
        yield {
            "type": "producer",
            "producer_id": state.producer_id,
            "producer_epoch": state.epoch,
            "last_sequence": state.last_sequence,
            "last_offset": state.last_offset,
            "last_timestamp": state.last_timestamp,
            "coordinator_epoch": state.coordinator_epoch,
            "transaction_first_offset": state.transaction_first_offset,
            "batches": [
                {
                    "first_sequence": batch.first_sequence,
                    "last_sequence": batch.last_sequence,
                    "first_offset": batch.first_offset,
                    "last_offset": batch.last_offset,
                }
                for batch in state.batches
            ],
        }


def _leader_epochs(files: Files, path: Path) -> Iterator[Document]:
    for epoch, start_offset in LeaderEpochs.load(files, path.parent).entries:
        yield {"type": "leader_epoch", "epoch": epoch, "start_offset": start_offset}


def _offsets(files: Files, path: Path) -> Iterator[Document]:
    for (topic, partition), offset in checkpoints.read_offsets(files, path).items():
        yield {"type": "offset", "topic": topic, "partition": partition, "offset": offset}


_BY_SUFFIX: Final[Mapping[str, Callable[[Files, Path, int, Wanted], Iterator[Document]]]] = {
    "log": _segment,
    "index": _offset_index,
    "timeindex": _time_index,
    "txnindex": _transaction_index,
    "snapshot": _snapshot,
}
_CHECKPOINTS: Final[Mapping[str, Callable[[Files, Path], Iterator[Document]]]] = {
    LEADER_EPOCHS: _leader_epochs,
    **dict.fromkeys(OFFSET_CHECKPOINTS, _offsets),
}
KNOWN_FILES: Final = (*(f"*.{suffix}" for suffix in _BY_SUFFIX), *_CHECKPOINTS)
