"""A decided transaction is brought to its partitions, however often that has to be tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from highwater.model.errors import ErrorCode
from highwater.model.log_events import EventLog

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle
    from collections.abc import Callable, Iterable

    from highwater.broker.marker_writer import TransactionEnd
    from highwater.broker.transaction_metrics import TransactionMetrics
    from highwater.model.ids import TopicPartition

events = EventLog("transactions")

FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 1.0
ATTEMPT_TIMEOUT_S: Final = 30.0
"""A marker whose commit nobody has confirmed for so long is written again, which does no harm."""
OVERDUE_S: Final = 30.0
"""Somebody should look at a transaction that is still not ended everywhere."""

_HAS_ENDED: Final = frozenset({ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH})
"""The partition has the marker, or has seen a later epoch of the producer, and so the end of this transaction."""


class Writer(Protocol):
    """Who writes markers, here or on other brokers."""

    def write(
        self, end: TransactionEnd, names: Iterable[TopicPartition], tell: Callable[[TopicPartition, ErrorCode], None]
    ) -> None:
        """Write a marker to each partition; `tell` is called once for each, now or later."""


class Deletions(Protocol):
    """Who knows which partitions are gone for good."""

    def look_for(self, names: Iterable[TopicPartition], tell: Callable[[TopicPartition], None]) -> None:
        """Tell later which of these are deleted."""


class MarkerSender:
    """Sends the markers of one transaction until every partition has its own, or is deleted.

    A partition that fails is tried again after a pause that grows to a second: by then it may have another leader.
    There is no end to that: what was decided must happen. Partitions whose marker is under way are left alone.
    """

    __slots__ = (
        "_deletions",
        "_done",
        "_due_at_s",
        "_end",
        "_is_over",
        "_loop",
        "_metrics",
        "_overdue_at_s",
        "_pause_s",
        "_timer",
        "_writer",
    )

    def __init__(
        self,
        end: TransactionEnd,
        names: Iterable[TopicPartition],
        *,
        loop: AbstractEventLoop,
        writer: Writer,
        deletions: Deletions,
        metrics: TransactionMetrics,
        done: Callable[[], None],
    ) -> None:
        self._end = end
        self._due_at_s = dict.fromkeys(names, 0.0)
        """When each partition that is left has its marker sent, for the first time or again."""
        self._loop = loop
        self._writer = writer
        self._deletions = deletions
        self._metrics = metrics
        self._done = done
        self._pause_s = 0.0
        """Before those that fail now are tried again."""
        self._overdue_at_s = loop.time() + OVERDUE_S
        self._is_over = False
        self._timer: TimerHandle | None = None

    @property
    def left(self) -> frozenset[TopicPartition]:
        """The partitions that have no marker yet, as far as we were told."""
        return frozenset(self._due_at_s)

    def start(self) -> None:
        """Send what is due; partitions that were deleted need nothing."""
        if not self._due_at_s:
            self._finish()
            return
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S) or FIRST_PAUSE_S
        now_s = self._loop.time()
        due = sorted(name for name, due_at_s in self._due_at_s.items() if due_at_s <= now_s)
        self._due_at_s.update(dict.fromkeys(due, now_s + ATTEMPT_TIMEOUT_S))
        self._arm()
        self._deletions.look_for(due, self._is_deleted)
        self._writer.write(self._end, due, self._told)

    def cancel(self) -> None:
        """Send nothing more, and tell nobody: another broker coordinates."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def _is_deleted(self, name: TopicPartition) -> None:
        if not self._is_over and name in self._due_at_s:
            events.info("marker_not_needed", partition=name, producer=self._end.producer_id)
            self._ended_in(name)

    def _ended_in(self, name: TopicPartition) -> None:
        del self._due_at_s[name]
        if not self._due_at_s:
            self._finish()

    def _told(self, name: TopicPartition, code: ErrorCode) -> None:
        if self._is_over or name not in self._due_at_s:
            return
        if code in _HAS_ENDED:
            self._ended_in(name)
        elif code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            events.warning("marker_fenced", partition=name, producer=self._end.producer_id)
            self.cancel()
        else:
            self._try_later(name, code)

    def _try_later(self, name: TopicPartition, code: ErrorCode) -> None:
        self._metrics.markers_delayed.value += 1
        now_s = self._loop.time()
        if self._pause_s == FIRST_PAUSE_S:
            events.info("marker_delayed", partition=name, producer=self._end.producer_id, code=code.name)
        elif now_s >= self._overdue_at_s:
            self._overdue_at_s = now_s + OVERDUE_S
            left = ",".join(f"{each.topic}-{each.partition}" for each in sorted(self._due_at_s))
            events.warning("markers_overdue", partitions=left, producer=self._end.producer_id, code=code.name)
        self._due_at_s[name] = now_s + self._pause_s
        self._arm()

    def _arm(self) -> None:
        """Wake up for whatever is due first."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(min(self._due_at_s.values()), self.start)

    def _finish(self) -> None:
        self.cancel()
        self._done()
