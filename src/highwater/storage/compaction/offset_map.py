"""Which offset is the newest of each key, in bounded memory."""

from hashlib import blake2b
from typing import Final

from highwater.protocol.records.spans import RecordSpans

_LONGEST_KEY_BYTES: Final = 64
"""Longer keys are remembered by a digest one byte longer than this, so that the two cannot be mixed up."""

_BYTES_PER_ENTRY: Final = 220
"""What an entry costs beside its key: two objects, and its part of a dictionary at the moment when that grows."""


class OffsetMap:
    """The newest offset of each key up to `latest_offset`, as far as the memory goes.

    Begun at the end of what was compacted before: there, a key that is not in the map has no newer record.
    """

    __slots__ = ("_free_bytes", "_offsets", "latest_offset")

    def __init__(self, memory_bytes: int, *, latest_offset: int = -1) -> None:
        self._offsets: dict[bytes, int] = {}
        self._free_bytes = memory_bytes
        self.latest_offset = latest_offset

    def __len__(self) -> int:
        return len(self._offsets)

    def put(self, spans: RecordSpans, base_offset: int) -> bool:
        """Remember the offsets of the records after `latest_offset`, which moves on; say whether there was room.

        A first record always fits, so that every round gets somewhere.
        """
        keys = _remembered(spans)
        entry_bytes = _BYTES_PER_ENTRY + min(spans.longest_key, _LONGEST_KEY_BYTES + 1)
        if base_offset <= self.latest_offset or entry_bytes * len(keys) > self._free_bytes:
            return self._put_one_by_one(keys, spans.offset_deltas, base_offset)
        offsets, deltas = self._offsets, spans.offset_deltas
        known = len(offsets)
        for place in range(len(keys)):
            key = keys[place]
            if key is not None:
                offsets[key] = base_offset + deltas[place]
        self._free_bytes -= entry_bytes * (len(offsets) - known)
        self.latest_offset = base_offset + deltas[-1]
        return True

    def _put_one_by_one(self, keys: list[bytes | None], offset_deltas: list[int], base_offset: int) -> bool:
        for key, delta in zip(keys, offset_deltas, strict=True):
            offset = base_offset + delta
            if offset <= self.latest_offset:
                continue
            if key is not None:
                if key not in self._offsets:
                    self._free_bytes -= _BYTES_PER_ENTRY + len(key)
                    if self._free_bytes < 0 and self._offsets:
                        return False
                self._offsets[key] = offset
            self.latest_offset = offset
        return True

    def newest(self, spans: RecordSpans) -> list[int | None]:
        """Return the newest offset of the key of each record, None where none is known."""
        return [None if key is None else self._offsets.get(key) for key in _remembered(spans)]

    def places_of_newest(self, spans: RecordSpans, base_offset: int) -> list[int]:
        """Return the places of the records that no later one replaces, as far as is known, and that have a key."""
        offsets, deltas, keys = self._offsets, spans.offset_deltas, _remembered(spans)
        latest_delta = self.latest_offset - base_offset
        kept: list[int] = []
        for place in range(len(keys)):
            delta = deltas[place]
            if delta > latest_delta:
                kept.append(place)
                continue
            key = keys[place]
            if key is not None:
                newest = offsets.get(key)
                if newest is None or newest <= base_offset + delta:
                    kept.append(place)
        return kept


def _remembered(spans: RecordSpans) -> list[bytes | None]:
    """Return the keys as they are remembered."""
    if spans.longest_key <= _LONGEST_KEY_BYTES:
        return spans.keys
    return [key if key is None or len(key) <= _LONGEST_KEY_BYTES else _digest(key) for key in spans.keys]


def _digest(key: bytes) -> bytes:
    digest = blake2b(key).digest()
    return digest + digest[: _LONGEST_KEY_BYTES + 1 - len(digest)]
