"""Which records are the newest of their keys, in bounded memory."""

from hashlib import blake2b
from typing import Final

_LONGEST_KEY_BYTES: Final = 64
"""Longer keys are remembered by a digest one byte longer than this, so that the two cannot be mixed up."""

BYTES_PER_KEY: Final = 130
"""What a key costs beside its bytes: an object, and its part of a set at the moment when that grows."""

BYTES_PER_BATCH: Final = 200
"""What it costs to remember a batch, beside a byte for each record."""

_NONE: Final = b""
"""For all the batches of which nothing stays."""


class NewestRecords:
    """Is shown the batches of a stretch of a log from its end to its beginning: the first of a key is its newest.

    So a set is enough, which takes a third of the time of a dictionary of offsets: most of it goes into waiting for
    memory, and a set has less of that to touch. Before that stretch, whatever has a key of it is replaced.
    """

    __slots__ = ("_free_bytes", "_keys", "_marks")

    def __init__(self, memory_bytes: int) -> None:
        self._keys: set[bytes | None] = set()
        self._marks: dict[int, bytes] = {}
        """By the base offset of a batch, of each record whether it is the newest of its key."""
        self._free_bytes = memory_bytes

    def take(self, base_offset: int, keys: list[bytes | None]) -> bool:
        """Take the keys of the batch before those that were taken; say whether there was room."""
        keys = _remembered(keys)
        found: set[bytes | None] = set(keys)
        found.discard(None)
        found = found.difference(self._keys)
        self._free_bytes -= BYTES_PER_BATCH + len(keys)
        if not found:
            self._marks[base_offset] = _NONE
            return self._free_bytes >= 0
        self._keys |= found
        marks = bytearray(len(keys))
        place = len(keys)
        while found:
            place -= 1
            key = keys[place]
            if key is not None and key in found:
                found.discard(key)
                marks[place] = 1
                self._free_bytes -= BYTES_PER_KEY + len(key)
        self._marks[base_offset] = bytes(marks)
        return self._free_bytes >= 0

    def replace_all_of(self, base_offset: int) -> bool:
        """Return whether no record of a batch that was taken is the newest of its key."""
        return self._marks.get(base_offset) is _NONE

    def places_in_taken(self, base_offset: int, count: int) -> list[int]:
        """Return the places of the records of a batch that are the newest of their keys: all, if it was not taken."""
        marks = self._marks.get(base_offset)
        if marks is None:
            return list(range(count))
        return [place for place in range(len(marks)) if marks[place]]

    def places_in_earlier(self, keys: list[bytes | None]) -> list[int]:
        """Return the places of the records whose keys were not seen, in a batch before all that were taken."""
        seen, keys = self._keys, _remembered(keys)
        kept: list[int] = []
        for place in range(len(keys)):
            key = keys[place]
            if key is not None and key not in seen:
                kept.append(place)
        return kept


def _remembered(keys: list[bytes | None]) -> list[bytes | None]:
    """Return the keys as they are remembered."""
    for key in keys:
        if key is not None and len(key) > _LONGEST_KEY_BYTES:
            return [key if key is None or len(key) <= _LONGEST_KEY_BYTES else _digest(key) for key in keys]
    return keys


def _digest(key: bytes) -> bytes:
    digest = blake2b(key).digest()
    return digest + digest[: _LONGEST_KEY_BYTES + 1 - len(digest)]
