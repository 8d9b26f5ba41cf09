"""Columns of zigzag varints: many numbers at once, as the fields inside a record are written."""

from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

Numbers = np.ndarray[Any, np.dtype[np.int64]]

NULL_LENGTH: Final = -1  # what stands for a null key or value; no other negative number occurs
_TABLE_SIZE: Final = 1 << 14
_MAX_WIDTH: Final = 5  # bytes, for lengths below 2**31


def varints(numbers: Numbers) -> pa.Array:
    """Return each number, which is -1 or more and below 2**31, as the bytes of a zigzag varint."""
    if len(numbers) and int(numbers.max()) >= _TABLE_SIZE:
        return _computed(numbers)
    return _table().take(pa.array(numbers + 1))


def widths(numbers: Numbers) -> Numbers:
    """Return how many bytes each number takes."""
    folded = _folded(numbers)
    found = np.ones(len(numbers), np.int64)
    for width in range(1, _MAX_WIDTH):
        found += folded >= 1 << (7 * width)
    return found


def _folded(numbers: Numbers) -> Numbers:
    return np.where(numbers < 0, 1, numbers << 1)


def _computed(numbers: Numbers) -> pa.Array:
    """Write the bytes of all numbers into one buffer: slower than the table, and good for every number."""
    width = widths(numbers)
    places = np.arange(_MAX_WIDTH)
    digits = (_folded(numbers)[:, None] >> (7 * places)) & 0x7F
    digits |= np.where(places < (width - 1)[:, None], 0x80, 0)
    flat = digits[places < width[:, None]].astype(np.uint8)
    offsets = np.zeros(len(numbers) + 1, np.int32)
    np.cumsum(width, out=offsets[1:])
    return pa.BinaryArray.from_buffers(pa.binary(), len(numbers), [None, pa.py_buffer(offsets), pa.py_buffer(flat)])


@cache
def _table() -> pa.Array:
    """Return the varints of -1, 0, 1, ...: looking one up is cheaper than computing it."""
    return _computed(np.arange(NULL_LENGTH, _TABLE_SIZE))
