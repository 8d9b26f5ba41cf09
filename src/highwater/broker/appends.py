"""What one turn has appended: written together, then told to those who wait for it."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from highwater.broker.partition import Partition

WAKE_UPS_PER_ITERATION: Final = 64
"""A hundred readers of one partition are a burst of milliseconds: the loop breathes between portions of it."""


class Wakeable(Protocol):
    """Somebody who waits for data."""

    def wake(self) -> None:
        """Look again."""


class Appends:
    """The partitions with staged batches, and the waiting fetches that written ones may satisfy.

    A handler stages; the connection calls `write` once per turn, sends its answers, then calls `wake`.
    """

    __slots__ = ("_loop", "staged", "to_wake", "unflushed", "written_batches", "written_bytes")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self._loop = loop
        self.staged: list[Partition] = []
        self.to_wake: deque[Wakeable] = deque()
        self.unflushed: dict[Partition, None] = {}
        """Partitions with `flush.ms` that were written to since they were last flushed."""
        self.written_bytes = 0
        self.written_batches = 0

    def write(self) -> None:
        """Write every staged batch: one system call per partition."""
        staged, self.staged = self.staged, []
        for partition in staged:
            partition.write_staged()

    def wake(self) -> None:
        """Wake those whom the written batches may satisfy, a bounded number at a time."""
        to_wake = self.to_wake
        for _ in range(min(len(to_wake), WAKE_UPS_PER_ITERATION)):
            to_wake.popleft().wake()
        if to_wake:
            self._loop.call_soon(self.wake)

    def finish(self) -> None:
        """Write and wake at once: for appends that do not come from a connection's turn."""
        if self.staged:
            self.write()
        if self.to_wake:
            self._loop.call_soon(self.wake)
