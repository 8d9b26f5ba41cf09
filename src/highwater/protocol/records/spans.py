"""Where the records of a batch are, with what compaction needs to know of them, without taking them apart.

A record that stays is copied byte for byte: it states its offset and timestamp relative to its batch.
"""

from typing import Final, NamedTuple

from highwater.protocol.records.errors import InvalidRecord
from highwater.protocol.records.varint import read_folded

_NULL: Final = 1
"""-1, folded: the length of what is not there."""


class RecordSpan(NamedTuple):
    """One record between two positions of an uncompressed payload."""

    start: int
    end: int
    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    has_value: bool


def record_spans(payload: bytes, count: int) -> list[RecordSpan]:
    """Return the `count` records that `payload` holds, in order. Raises InvalidRecord when it does not hold them."""
    try:
        spans, position = _walk(payload, count)
    except IndexError:
        raise InvalidRecord("a record is cut short") from None
    if position != len(payload):
        raise InvalidRecord(f"{len(payload) - position} bytes follow the last record")
    return spans


def _walk(data: bytes, count: int) -> tuple[list[RecordSpan], int]:  # noqa: C901, PLR0912 - unrolled for speed
    """Walk over the records; numbers of one byte, which most are, are read in line."""
    limit = len(data)
    position = 0
    previous_delta = -1
    spans: list[RecordSpan] = []
    append, new = spans.append, tuple.__new__
    for _ in range(count):
        start = position
        number = data[position]
        if number > 0x7F:
            number, position = read_folded(data, position)
        else:
            position += 1
        end = position + (number >> 1)
        if number & 1 or end > limit:
            raise InvalidRecord(f"a record states a length that does not fit the {limit - position} bytes left")

        position += 1  # the attributes, of which none is in use
        number = data[position]
        if number > 0x7F:
            number, position = read_folded(data, position)
        else:
            position += 1
        timestamp_delta = (number >> 1) ^ -(number & 1)

        number = data[position]
        if number > 0x7F:
            number, position = read_folded(data, position)
        else:
            position += 1
        offset_delta = number >> 1
        if number & 1 or offset_delta <= previous_delta:
            raise InvalidRecord(f"offset delta {(number >> 1) ^ -(number & 1)} follows {previous_delta}")
        previous_delta = offset_delta

        number = data[position]
        if number > 0x7F:
            number, position = read_folded(data, position)
        else:
            position += 1
        key = None
        if not number & 1:
            key_start = position
            position += number >> 1
            key = data[key_start:position]
        elif number != _NULL:
            raise InvalidRecord("a record's key has a negative length")
        if position >= end:
            raise InvalidRecord("a record's key reaches beyond the record")
        append(new(RecordSpan, (start, end, offset_delta, timestamp_delta, key, data[position] != _NULL)))
        position = end
    return spans, position
