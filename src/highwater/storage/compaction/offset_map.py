"""Which offset is the newest of each key, in bounded memory."""

from hashlib import blake2b
from typing import Final

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

    def put(self, key: bytes, offset: int) -> bool:
        """Remember a newer offset of a key; say whether there was room. One key always fits."""
        if len(key) > _LONGEST_KEY_BYTES:
            key = _digest(key)
        offsets = self._offsets
        if key not in offsets:
            self._free_bytes -= _BYTES_PER_ENTRY + len(key)
            if self._free_bytes < 0 and offsets:
                return False
        offsets[key] = offset
        return True

    def newest(self, key: bytes) -> int:
        """Return the newest offset of a key, or -1."""
        return self._offsets.get(_digest(key) if len(key) > _LONGEST_KEY_BYTES else key, -1)


def _digest(key: bytes) -> bytes:
    digest = blake2b(key).digest()
    return digest + digest[: _LONGEST_KEY_BYTES + 1 - len(digest)]
