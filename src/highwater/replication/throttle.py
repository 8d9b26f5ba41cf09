"""How much replication may use of a network: a rate for the replicas that are named, so that a move disturbs nobody."""

from collections.abc import Sequence
from typing import Final

EVERY_REPLICA: Final = "*"
WINDOW_MS: Final = 1_000
"""What was left unused for longer than this is gone: a quiet minute does not pay for a burst."""


def is_throttled(replicas: Sequence[str], *, partition: int, broker: int) -> bool:
    """Return whether a setting such as `leader.replication.throttled.replicas` names this replica."""
    return EVERY_REPLICA in replicas or f"{partition}:{broker}" in replicas


class Throttle:
    """Counts bytes against a rate. One that is over it waits until the time for what was taken has passed."""

    __slots__ = ("_free_at_ms",)

    def __init__(self) -> None:
        self._free_at_ms = 0.0

    def is_over(self, *, now_ms: float) -> bool:
        """Return whether more has been taken than the rate allows until now."""
        return now_ms < self._free_at_ms

    def took(self, size_bytes: int, *, bytes_per_s: int, now_ms: float) -> None:
        """Count bytes that were sent or received."""
        start = max(self._free_at_ms, now_ms - WINDOW_MS)
        self._free_at_ms = start + size_bytes * 1000 / max(bytes_per_s, 1)
