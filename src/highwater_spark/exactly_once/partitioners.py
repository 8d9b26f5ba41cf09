"""Which partition a key belongs to, for whole columns: as the Java client says it, or as librdkafka does.

murmur2 is what the Java client hashes keys with, crc32 what librdkafka does. Both are computed for all keys at once,
four bytes or one byte of every key at a time; keys are sorted by length, so that those that still have bytes left are
always the first ones.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from highwater_spark.exactly_once.varints import Numbers

Words = np.ndarray[Any, np.dtype[np.uint32]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]

_SEED: Final = np.uint32(0x9747B28C)
_MULTIPLIER: Final = np.uint32(0x5BD1E995)
_CRC_POLYNOMIAL: Final = 0xEDB88320


def murmur2(keys: pa.Array) -> Words:
    """Return the hash of each key; that of a null means nothing."""
    data, starts, lengths, order = _by_length(keys)
    hashes = _SEED ^ lengths.astype(np.uint32)
    words = np.ndarray((max(len(data) - 3, 0),), "<u4", data, strides=(1,))  # the four bytes from every place on
    for position in range(0, int(lengths[0]) & ~3 if len(lengths) else 0, 4):
        active = _first_with(lengths, position + 4)
        word = words[starts[:active] + position] * _MULTIPLIER
        word ^= word >> np.uint32(24)
        hashes[:active] = (hashes[:active] * _MULTIPLIER) ^ (word * _MULTIPLIER)
    tails = lengths & ~3
    for place in (2, 1, 0):
        rows = np.flatnonzero(lengths - tails > place)
        hashes[rows] ^= data[starts[rows] + tails[rows] + place].astype(np.uint32) << np.uint32(8 * place)
    rows = np.flatnonzero(lengths > tails)
    hashes[rows] *= _MULTIPLIER
    hashes ^= hashes >> np.uint32(13)
    hashes *= _MULTIPLIER
    hashes ^= hashes >> np.uint32(15)
    return _restored(hashes, order)


def crc32(keys: pa.Array) -> Words:
    """Return the checksum of each key; that of a null means nothing."""
    data, starts, lengths, order = _by_length(keys)
    sums = np.full(len(keys), 0xFFFFFFFF, np.uint32)
    table = _crc_table()
    for position in range(int(lengths[0]) if len(lengths) else 0):
        active = _first_with(lengths, position + 1)
        sums[:active] = table[(sums[:active] ^ data[starts[:active] + position]) & np.uint32(0xFF)] ^ sums[
            :active
        ] >> np.uint32(8)
    return _restored(~sums, order)


def _java(keys: pa.Array, partitions: Numbers) -> Numbers:
    return (murmur2(keys) & np.uint32(0x7FFFFFFF)).astype(np.int64) % partitions


def _librdkafka(keys: pa.Array, partitions: Numbers) -> Numbers:
    return crc32(keys).astype(np.int64) % partitions


PARTITIONERS: Final[Mapping[str, Callable[[pa.Array, Numbers], Numbers]]] = {"murmur2": _java, "crc32": _librdkafka}
"""Each takes binary keys and, for every key, the number of partitions of its topic."""


def _by_length(keys: pa.Array) -> tuple[Bytes, Numbers, Numbers, Numbers]:
    """Return the bytes of all keys, where each begins, its length, and the order: the longest come first."""
    offsets = np.frombuffer(keys.buffers()[1], np.int32, len(keys) + 1, 4 * keys.offset).astype(np.int64)
    content = keys.buffers()[2]
    data = np.frombuffer(content, np.uint8) if content is not None and content.size else np.zeros(4, np.uint8)
    lengths = np.diff(offsets)
    order = np.argsort(-lengths, kind="stable")
    return data, offsets[:-1][order], lengths[order], order


def _first_with(lengths: Numbers, at_least: int) -> int:
    """Return how many of the keys, longest first, have so many bytes."""
    return len(lengths) - int(np.searchsorted(lengths[::-1], at_least, side="left"))


def _restored(values: Words, order: Numbers) -> Words:
    found = np.empty_like(values)
    found[order] = values
    return found


@cache
def _crc_table() -> Words:
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, _CRC_POLYNOMIAL ^ table >> np.uint32(1), table >> np.uint32(1)).astype(np.uint32)
    return table
