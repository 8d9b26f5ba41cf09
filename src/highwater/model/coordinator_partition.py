"""Which partition of an internal topic keeps a group or a transactional id, and so which broker coordinates it."""

from functools import lru_cache
from typing import Final

DEFAULT_PARTITIONS: Final = 50
"""Of `__consumer_offsets` and of `__transaction_state`."""
_SIGN_BIT: Final = 0x80000000
_LOW_31_BITS: Final = 0x7FFFFFFF
_LOW_32_BITS: Final = 0xFFFFFFFF
_REMEMBERED_KEYS: Final = 4096
"""Every request of a group asks; to hash its name takes longer than all the rest of a heartbeat."""


def java_hash(text: str) -> int:
    """Return Java's `String.hashCode`: over UTF-16 code units, in 32 bits with a sign."""
    units = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & _LOW_32_BITS
    return value - (_SIGN_BIT << 1) if value & _SIGN_BIT else value


@lru_cache(maxsize=_REMEMBERED_KEYS)
def partition_for(key: str, partition_count: int = DEFAULT_PARTITIONS) -> int:
    """Return the partition whose leader coordinates `key`.

    The one hash that has no positive counterpart in 32 bits, -2**31, counts as 0: that is what Kafka's `Utils.abs`
    does, and what another broker put somewhere must be found there.
    """
    hashed = java_hash(key)
    magnitude = 0 if hashed == -_SIGN_BIT else abs(hashed)
    assert magnitude <= _LOW_31_BITS
    return magnitude % partition_count
