"""Where the records of a batch are and where their parts are: the one walk over the bytes of records.

For compaction this is all: a record that stays is copied byte for byte, for it states its offset and timestamp relative
to its batch. The result is lists side by side, not objects: compaction looks at every record of a log, and lists are
several times as fast. `record.py` makes records of them.
"""

from typing import Final, NamedTuple

from highwater.protocol.records.errors import InvalidRecord
from highwater.protocol.records.varint import read_folded

_NULL: Final = 1
"""-1, folded: the length of what is not there."""


class RecordSpans(NamedTuple):
    """The records of an uncompressed payload, in order: what belongs to one has the same place in each list."""

    ends: list[int]
    """Where a record ends, and the next one begins; the first one begins at 0."""
    offset_deltas: list[int]
    timestamp_deltas: list[int]
    keys: list[bytes | None]
    value_starts: list[int]
    """Where the length of a value stands, the first thing after the key."""
    without_value: list[int]
    """The places of those that say that their key is deleted."""
    longest_key: int

    def __len__(self) -> int:
        return len(self.ends)


def record_spans(payload: bytes, count: int) -> RecordSpans:
    """Return the `count` records that `payload` holds. Raises InvalidRecord when it does not hold them."""
    try:
        spans = _walk(payload, count)
    except IndexError:
        raise InvalidRecord("a record is cut short") from None
    end = spans.ends[-1] if spans.ends else 0
    if end != len(payload):
        raise InvalidRecord(f"{len(payload) - end} bytes follow the last record")
    return spans


def record_keys(payload: bytes, count: int) -> list[bytes | None]:
    """Return the keys of the records alone, in a part of the time. Raises as `record_spans` does."""
    try:
        return _walk_over_keys(payload, count)
    except IndexError:
        raise InvalidRecord("a record is cut short") from None


def select(payload: bytes, spans: RecordSpans, numbers: list[int]) -> bytes:
    """Return the bytes of some records, by their places."""
    ends = spans.ends
    return b"".join([payload[ends[number - 1] if number else 0 : ends[number]] for number in numbers])


def _walk(data: bytes, count: int) -> RecordSpans:  # noqa: C901, PLR0912, PLR0915 - unrolled for speed
    """Walk over the records; numbers of up to two bytes, which nearly all are, are read in line."""
    ends: list[int] = []
    offset_deltas: list[int] = []
    timestamp_deltas: list[int] = []
    keys: list[bytes | None] = []
    value_starts: list[int] = []
    without_value: list[int] = []
    limit = len(data)
    position = longest_key = 0
    previous_delta = -1
    for place in range(count):
        number = data[position]
        position += 1
        if number > 0x7F:
            byte = data[position]
            position += 1
            number += (byte << 7) - 0x80
            if byte > 0x7F:
                number, position = read_folded(data, position - 2)
        end = position + (number >> 1)
        if number & 1 or end > limit:
            raise InvalidRecord(f"a record states a length that does not fit the {limit - position} bytes left")
        ends.append(end)

        number = data[position + 1]  # after the attributes, of which none is in use
        position += 2
        if number > 0x7F:
            byte = data[position]
            position += 1
            number += (byte << 7) - 0x80
            if byte > 0x7F:
                number, position = read_folded(data, position - 2)
        timestamp_deltas.append((number >> 1) ^ -(number & 1))

        number = data[position]
        position += 1
        if number > 0x7F:
            byte = data[position]
            position += 1
            number += (byte << 7) - 0x80
            if byte > 0x7F:
                number, position = read_folded(data, position - 2)
        delta = number >> 1
        if number & 1 or delta <= previous_delta:
            raise InvalidRecord(f"offset delta {(number >> 1) ^ -(number & 1)} follows {previous_delta}")
        offset_deltas.append(delta)
        previous_delta = delta

        number = data[position]
        position += 1
        if number > 0x7F:
            byte = data[position]
            position += 1
            number += (byte << 7) - 0x80
            if byte > 0x7F:
                number, position = read_folded(data, position - 2)
        if not number & 1:
            length = number >> 1
            keys.append(data[position : position + length])
            position += length
            if length > longest_key:  # noqa: PLR1730 - a call of max() would cost more than all of this
                longest_key = length
        elif number == _NULL:
            keys.append(None)
        else:
            raise InvalidRecord("a record's key has a negative length")
        if position >= end:
            raise InvalidRecord("a record's key reaches beyond the record")
        value_starts.append(position)
        if data[position] == _NULL:
            without_value.append(place)
        position = end
    return RecordSpans(ends, offset_deltas, timestamp_deltas, keys, value_starts, without_value, longest_key)


def _walk_over_keys(data: bytes, count: int) -> list[bytes | None]:  # noqa: C901, PLR0912 - unrolled for speed
    """Read no number that says nothing about keys."""
    keys: list[bytes | None] = []
    limit = len(data)
    position = 0
    for _ in range(count):
        number = data[position]
        position += 1
        if number > 0x7F:
            byte = data[position]
            position += 1
            number += (byte << 7) - 0x80
            if byte > 0x7F:
                number, position = read_folded(data, position - 2)
        end = position + (number >> 1)
        if number & 1 or end > limit:
            raise InvalidRecord(f"a record states a length that does not fit the {limit - position} bytes left")
        position += 1  # the attributes
        while data[position] > 0x7F:  # the timestamp
            position += 1
        position += 1
        while data[position] > 0x7F:  # the offset
            position += 1
        number = data[position + 1]
        position += 2
        if number > 0x7F:
            byte = data[position]
            position += 1
            number += (byte << 7) - 0x80
            if byte > 0x7F:
                number, position = read_folded(data, position - 2)
        if not number & 1:
            start = position
            position += number >> 1
            keys.append(data[start:position])
        elif number == _NULL:
            keys.append(None)
        else:
            raise InvalidRecord("a record's key has a negative length")
        if position >= end:
            raise InvalidRecord("a record's key reaches beyond the record")
        position = end
    if position != limit:
        raise InvalidRecord(f"{limit - position} bytes follow the last record")
    return keys
