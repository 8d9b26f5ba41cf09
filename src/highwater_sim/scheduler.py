"""Virtual time: what happens next, and when. One seed decides the order of everything that has none by itself."""

from __future__ import annotations

from heapq import heappop, heappush
from random import Random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class Event:
    """Something that will happen, unless it is called off."""

    __slots__ = ("action", "is_off")

    def __init__(self, action: Callable[[], None]) -> None:
        self.action = action
        self.is_off = False

    def call_off(self) -> None:
        """Let it not happen."""
        self.is_off = True


class Scheduler:
    """A heap of events by their time. Time does not pass: it jumps to the next event."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.now = 0.0
        self.events_run = 0
        self._heap: list[tuple[float, float, int, Event]] = []
        self._sequence = 0

    def at(self, when: float, action: Callable[[], None]) -> Event:
        """Do `action` at `when`. What is due at the same time happens in an order that the seed decides."""
        event = Event(action)
        self._sequence += 1
        heappush(self._heap, (max(when, self.now), self.random.random(), self._sequence, event))
        return event

    def after(self, delay: float, action: Callable[[], None]) -> Event:
        """Do `action` in `delay` seconds."""
        return self.at(self.now + delay, action)

    def between(self, low: float, high: float) -> float:
        """Return a number of seconds."""
        return low + (high - low) * self.random.random()

    def step(self) -> bool:
        """Let the next event happen; return False if there is none."""
        while self._heap:
            when, _, _, event = heappop(self._heap)
            if event.is_off:
                continue
            self.now = when
            self.events_run += 1
            event.action()
            return True
        return False

    def run_until(self, deadline: float) -> None:
        """Let everything happen up to a time, which it is then."""
        heap = self._heap
        while heap and heap[0][0] <= deadline:
            self.step()
        self.now = max(self.now, deadline)
