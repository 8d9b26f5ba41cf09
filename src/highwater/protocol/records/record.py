"""The records inside a batch: read them all, write a batch of them.

For the few who must look inside: compaction, offsets by timestamp, internal topics, `highwater dump`. A batch on its
way from a producer to a consumer is never taken apart.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

from highwater.model.ids import NO_PRODUCER_ID
from highwater.protocol.records import varint
from highwater.protocol.records.batch import (
    CODEC_MASK,
    CONTROL,
    HEADER,
    HEADER_BYTES,
    LENGTH_PREFIX_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_SEQUENCE,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    patch_checksum,
    read_header,
)
from highwater.protocol.records.compression import DEFAULT_LIMIT_BYTES, Codec, compress, decompress
from highwater.protocol.records.errors import CorruptMessage, InvalidRecord
from highwater.protocol.records.spans import record_spans

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]

_SMALLEST_RECORD_BYTES: Final = 7
"""Six one-byte numbers and the attributes."""
_NO_ATTRIBUTES: Final = 0
"""Of a record's own attributes, no bit is in use."""
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1


class Record(NamedTuple):
    """One record, with the offset and the timestamp that readers see."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def numbered(
    pairs: Iterable[tuple[bytes | None, bytes | None]], *, timestamp_ms: int, base_offset: int = 0
) -> list[Record]:
    """Return a record for each (key, value), with offsets that count up from `base_offset`."""
    return [Record(offset, timestamp_ms, key, value) for offset, (key, value) in enumerate(pairs, base_offset)]


def read_records(batch: Buffer, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> list[Record]:
    """Return the records of the one batch that `batch` starts with.

    Every length, count and offset is checked: what is returned is all of the batch, and in offset order. The checksum
    is not looked at, see `validate.check_batch`. Raises CorruptMessage or InvalidRecord, and nothing else.
    """
    header = read_header(batch)
    data = read_payload(batch, header, limit_bytes=limit_bytes)
    if header.record_count < 0 or header.record_count * _SMALLEST_RECORD_BYTES > len(data):
        raise InvalidRecord(f"batch states {header.record_count} records in {len(data)} bytes")
    try:
        return _parse(data, header)
    except IndexError:
        raise InvalidRecord("a record is cut short") from None


def read_payload(batch: Buffer, header: BatchHeader, *, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> bytes:
    """Return the bytes after the header, decompressed."""
    if not HEADER_BYTES <= header.size <= len(batch):
        raise CorruptMessage(f"record batch states {header.size} bytes, found {len(batch)}")
    try:
        codec = Codec(header.codec)
    except ValueError:
        raise InvalidRecord(f"compression codec {header.codec} does not exist") from None
    return decompress(codec, memoryview(batch)[HEADER_BYTES : header.size], limit_bytes=limit_bytes)


def _parse(data: bytes, header: BatchHeader) -> list[Record]:
    """Take `data` apart: the fields up to the key as `record_spans` finds them, then values and headers."""
    base_offset, base_timestamp = header.base_offset, header.base_timestamp
    append_time = header.max_timestamp if header.attributes & LOG_APPEND_TIME else None
    spans = record_spans(data, header.record_count)
    if spans.offset_deltas and spans.offset_deltas[-1] > header.last_offset_delta:
        raise InvalidRecord(
            f"last offset delta is {spans.offset_deltas[-1]}, the batch states {header.last_offset_delta}"
        )
    records: list[Record] = []
    for number, end in enumerate(spans.ends):
        timestamp = append_time if append_time is not None else base_timestamp + spans.timestamp_deltas[number]
        if not _INT64_MIN <= timestamp <= _INT64_MAX:
            raise InvalidRecord(f"a record's timestamp, {timestamp}, needs more than 64 bits")
        value, position = _read_bytes(data, spans.value_starts[number], end, "a record's value")
        headers: Headers = ()
        if data[position]:
            headers, position = _read_headers(data, position, end)
        else:
            position += 1
        if position != end:
            raise InvalidRecord(f"a record's fields end {position - end} bytes after the length it states")
        offset = base_offset + spans.offset_deltas[number]
        records.append(tuple.__new__(Record, (offset, timestamp, spans.keys[number], value, headers)))
    return records


def _read_headers(data: bytes, position: int, end: int) -> tuple[Headers, int]:
    """Return the headers whose count stands at `position`, and the position after them."""
    count, position = varint.read(data, position)
    if not 0 <= count <= end - position:
        raise InvalidRecord(f"a record states {count} headers in {end - position} bytes")
    headers: list[tuple[str, bytes | None]] = []
    for _ in range(count):
        key, position = _read_bytes(data, position, end, "the key of a record header")
        if key is None:
            raise InvalidRecord("the key of a record header is missing")
        value, position = _read_bytes(data, position, end, "the value of a record header")
        headers.append((key.decode("utf-8", "surrogateescape"), value))
    return tuple(headers), position


def _read_bytes(data: bytes, position: int, end: int, what: str) -> tuple[bytes | None, int]:
    """Return the bytes whose length stands at `position`, None for a length of -1, and the position after them."""
    length, position = varint.read(data, position)
    if length == -1:
        return None, position
    if not 0 <= length <= end - position:
        raise InvalidRecord(f"{what} has a length that does not fit")
    return data[position : position + length], position + length


def build_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    leader_epoch: int = NO_LEADER_EPOCH,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
) -> bytearray:
    """Return a batch of `records`, whose offsets rise from `base_offset` or above."""
    assert records, "a batch has at least one record"
    base_timestamp = records[0].timestamp
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        leader_epoch=leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=codec | TRANSACTIONAL * is_transactional | CONTROL * is_control,
        last_offset_delta=records[-1].offset - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=max(record.timestamp for record in records),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(records),
    )
    payload = write_payload(records, base_offset=base_offset, base_timestamp=base_timestamp)
    return assemble(header, compress(codec, payload, level))


def assemble(header: BatchHeader, payload: Buffer) -> bytearray:
    """Return the batch of `header`, with length and checksum set, and of `payload`, compressed as the header says."""
    batch = bytearray(HEADER_BYTES)
    batch += payload
    HEADER.pack_into(batch, 0, *header._replace(batch_length=len(batch) - LENGTH_PREFIX_BYTES))
    patch_checksum(batch)
    return batch


def recompress(batch: Buffer, codec: Codec, level: int | None = None) -> bytearray:
    """Return the same batch with its records, untouched, in another codec; `batch` is checked no further than that."""
    header = read_header(batch)
    payload = read_payload(batch, header)
    return assemble(
        header._replace(attributes=header.attributes & ~CODEC_MASK | codec), compress(codec, payload, level)
    )


def write_payload(records: Iterable[Record], *, base_offset: int, base_timestamp: int) -> bytearray:
    """Return the uncompressed bytes that follow the header of a batch with these bases."""
    payload = bytearray()
    previous_delta = -1
    for record in records:
        delta = record.offset - base_offset
        assert delta > previous_delta, "offsets rise inside a batch"
        previous_delta = delta
        body = bytearray((_NO_ATTRIBUTES,))
        varint.write(body, record.timestamp - base_timestamp)
        varint.write(body, delta)
        _write_bytes(body, record.key)
        _write_bytes(body, record.value)
        varint.write(body, len(record.headers))
        for key, value in record.headers:
            _write_bytes(body, key.encode("utf-8", "surrogateescape"))
            _write_bytes(body, value)
        varint.write(payload, len(body))
        payload += body
    return payload


def _write_bytes(out: bytearray, data: bytes | None) -> None:
    if data is None:
        varint.write(out, -1)
    else:
        varint.write(out, len(data))
        out += data
