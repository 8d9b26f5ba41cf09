"""Virtual time: what happens next, and when. One seed decides the order of everything that has none by itself."""

from __future__ import annotations

from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Scheduler:
    """A heap of events by their time. Time does not pass: it jumps to the next event."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.events_run = 0
        self._heap: list[tuple[float, float, int, Callable[[], None]]] = []
        self._sequence = 0
        self._draw = self.random.random

    def at(self, when: float, action: Callable[[], None]) -> None:
        """Do `action` at `when`. What is due at the same time happens in an order that the seed decides."""
        self._sequence = sequence = self._sequence + 1
        heappush(self._heap, (max(self.now, when), self._draw(), sequence, action))

    def after(self, delay: float, action: Callable[[], None]) -> None:
        """Do `action` in `delay` seconds."""
        self._sequence = sequence = self._sequence + 1
        heappush(self._heap, (self.now + delay, self._draw(), sequence, action))

    def between(self, low: float, high: float) -> float:
        """Return a number of seconds."""
        return low + (high - low) * self.random.random()

    def step(self) -> bool:
        """Let the next event happen; return False if there is none."""
        if not self._heap:
            return False
        self.now, _, _, action = heappop(self._heap)
        self.events_run += 1
        action()
        return True

    def clear(self) -> None:
        """Let nothing more happen, and let go of what should have."""
        self._heap.clear()

    def run_until(self, deadline: float) -> None:
        """Let everything happen up to a time, which it is then."""
        heap, events = self._heap, 0
        while heap and heap[0][0] <= deadline:
            self.now, _, _, action = heappop(heap)
            events += 1
            action()
        self.events_run += events
        self.now = max(self.now, deadline)
