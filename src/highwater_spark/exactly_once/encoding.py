"""From Arrow columns to the payload of record batches, without a line of Python per record.

A record is: its length, attributes, timestamp delta, offset delta, key, value, headers; all numbers are zigzag varints.
Each of these is a column here, and Arrow joins the columns row by row into one buffer, of which each batch is a slice.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from highwater_spark.exactly_once.varints import NULL_LENGTH, Numbers, varints, widths

_ATTRIBUTES_AND_TIMESTAMP: Final = b"\0\0"  # no attribute is in use, and all records of a batch share its timestamp
_NO_HEADERS: Final = b"\0"
_NULL: Final = b"\1"
_MOST_NUMBERS_BYTES: Final = 5 * 5 + len(_ATTRIBUTES_AND_TIMESTAMP)  # five varints of at most five bytes


@dataclass(frozen=True, slots=True)
class Columns:
    """The records to encode: binary keys and values, and lists of (key, value) or nothing at all for the headers."""

    keys: pa.Array
    values: pa.Array
    headers: pa.Array | None = None

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: Numbers) -> "Columns":
        """Return chosen rows, in the order given."""
        chosen = pa.array(rows)
        headers = None if self.headers is None else self.headers.take(chosen)
        return Columns(self.keys.take(chosen), self.values.take(chosen), headers)


@dataclass(frozen=True, slots=True)
class Payload:
    """The encoded records of one batch."""

    data: memoryview
    count: int


def encode(columns: Columns, *, batch_bytes: int, first_cuts: tuple[int, ...] = ()) -> list[Payload]:
    """Return the records as payloads of at most about `batch_bytes`; one record is never split.

    The first payloads hold at most as many records as `first_cuts` says.
    """
    if not len(columns):
        return []
    key_lengths, value_lengths = _lengths(columns.keys), _lengths(columns.values)
    header_pieces, header_bytes = _headers(columns.headers)
    contents = np.maximum(key_lengths, 0) + np.maximum(value_lengths, 0) + header_bytes
    starts = _starts(contents + _MOST_NUMBERS_BYTES, batch_bytes, first_cuts)
    ends = np.append(starts[1:], len(columns))
    deltas = np.arange(len(columns)) - np.repeat(starts, ends - starts)
    lengths = contents + len(_ATTRIBUTES_AND_TIMESTAMP) + widths(deltas) + widths(key_lengths) + widths(value_lengths)
    joined = pc.binary_join_element_wise(
        varints(lengths),
        pa.scalar(_ATTRIBUTES_AND_TIMESTAMP, pa.binary()),
        varints(deltas),
        *_lengths_and_bytes(columns.keys, key_lengths),
        *_lengths_and_bytes(columns.values, value_lengths),
        *header_pieces,
        pa.scalar(b"", pa.binary()),  # between the columns
        null_handling="replace",
        null_replacement=b"",
    )
    data, offsets = memoryview(joined.buffers()[2]), _offsets(joined)
    return [
        Payload(data[offsets[start] : offsets[end]], int(end - start)) for start, end in zip(starts, ends, strict=True)
    ]


def _lengths(column: pa.Array) -> Numbers:
    found: Numbers = pc.fill_null(pc.binary_length(column), NULL_LENGTH).to_numpy(zero_copy_only=False)
    return found.astype(np.int64)


def _lengths_and_bytes(column: pa.Array, lengths: Numbers) -> tuple[Any, ...]:
    if column.null_count == len(column):
        return (pa.scalar(_NULL, pa.binary()),)
    return varints(lengths), column


def _headers(column: pa.Array | None) -> tuple[tuple[Any, ...], Numbers]:
    """Return the columns for the headers, and how many bytes they have in each row.

    All headers are encoded in one go; those of a row lie side by side, so a row's are a slice of what came out.
    """
    if column is None or not len(flat := column.flatten()):
        return (pa.scalar(_NO_HEADERS, pa.binary()),), np.ones(1, np.int64)
    keys, values = flat.field("key").cast(pa.binary()), flat.field("value")
    encoded = pc.binary_join_element_wise(
        varints(_lengths(keys)),
        keys,
        *_lengths_and_bytes(values, _lengths(values)),
        pa.scalar(b"", pa.binary()),
        null_handling="replace",
        null_replacement=b"",
    )
    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    boundaries = np.zeros(len(column) + 1, np.int64)
    np.cumsum(counts, out=boundaries[1:])
    offsets = _offsets(encoded)[boundaries]
    rows = pa.BinaryArray.from_buffers(
        pa.binary(), len(column), [None, pa.py_buffer(offsets.astype(np.int32)), encoded.buffers()[2]]
    )
    return (varints(counts), rows), np.diff(offsets) + widths(counts)


def _offsets(column: pa.Array) -> Numbers:
    """Return where each value of a fresh binary array begins in its buffer, and where the last one ends."""
    return np.frombuffer(column.buffers()[1], np.int32, len(column) + 1, 4 * column.offset).astype(np.int64)


def _starts(sizes: Numbers, batch_bytes: int, first_cuts: tuple[int, ...]) -> Numbers:
    """Return the first row of each batch."""
    ends = np.cumsum(sizes)
    starts = [0]
    while True:
        start = starts[-1]
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, before + batch_bytes, side="right"))
        following = max(fitting, start + 1)
        if len(starts) <= len(first_cuts):
            following = min(following, start + first_cuts[len(starts) - 1])
        if following >= len(sizes):
            return np.array(starts, np.int64)
        starts.append(following)
