"""The counts of a run: written by the queries' threads, read by the display."""

import threading
from collections import Counter


class Tally:
    """How many rows each sink was given."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def add(self, sink: str, rows: int) -> None:
        """Count rows of a sink."""
        with self._lock:
            self._counts[sink] += rows

    def total(self, sink: str) -> int:
        """Return how many rows a sink was given in this run."""
        with self._lock:
            return self._counts[sink]

    def totals(self) -> dict[str, int]:
        """Return the rows of every sink."""
        with self._lock:
            return dict(self._counts)
