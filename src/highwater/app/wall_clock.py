"""What time it is; in a module of its own because every Produce asks, and this one can be compiled."""

from time import time_ns


def wall_clock_ms() -> int:
    """Return the milliseconds since the beginning of 1970."""
    return time_ns() // 1_000_000
