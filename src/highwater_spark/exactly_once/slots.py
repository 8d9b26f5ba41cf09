"""Numbers that Spark's hash partitioning sends to a chosen task.

`repartition(n, column)` sends a row to task `pmod(hash(column), n)`. Spark 4.0 has no way to name the task itself, so
the column holds a number whose hash ends up there. Should a later Spark hash otherwise, tasks would share the work
less evenly; nothing else depends on it.
"""

from itertools import count, islice
from typing import Final

_SEED: Final = 42
_MASK: Final = 0xFFFFFFFF


def numbers_for(tasks: int) -> list[int]:
    """Return for each task a number that is sent to it."""
    found: dict[int, int] = {}
    for number in islice(count(), 1000 * tasks):
        found.setdefault(spark_hash(number) % tasks, number)
        if len(found) == tasks:
            break
    assert len(found) == tasks, "a hash that misses a task a thousand times is none"
    return [found[task] for task in range(tasks)]


def spark_hash(number: int) -> int:
    """Return Spark's `hash` of an int (Murmur3, 32 bits, seed 42), signed as in SQL."""
    k = number * 0xCC9E2D51 & _MASK
    k = (k << 15 | k >> 17) & _MASK
    h = _SEED ^ k * 0x1B873593 & _MASK
    h = (h << 13 | h >> 19) & _MASK
    h = h * 5 + 0xE6546B64 & _MASK
    h ^= 4  # the bytes of an int
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h
