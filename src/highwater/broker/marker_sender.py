"""A decided transaction is brought to its partitions, however often that has to be tried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from highwater.model.errors import ErrorCode
from highwater.model.log_events import EventLog

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle
    from collections.abc import Callable, Iterable

    from highwater.broker.marker_writer import TransactionEnd
    from highwater.broker.topics import Topics
    from highwater.model.ids import TopicPartition

events = EventLog("transactions")

FIRST_PAUSE_S: Final = 0.02
LONGEST_PAUSE_S: Final = 1.0
ATTEMPT_TIMEOUT_S: Final = 30.0
"""A marker whose commit nobody has confirmed for so long is written again, which does no harm."""

_HAS_ENDED: Final = frozenset({ErrorCode.NONE, ErrorCode.INVALID_PRODUCER_EPOCH})
"""The partition has the marker, or has seen a later epoch of the producer, and so the end of this transaction."""


class Writer(Protocol):
    """Who writes markers, here or on other brokers."""

    def write(
        self, end: TransactionEnd, names: Iterable[TopicPartition], tell: Callable[[TopicPartition, ErrorCode], None]
    ) -> None:
        """Write a marker to each partition; `tell` is called once for each, now or later."""


class MarkerSender:
    """Sends the markers of one transaction until every partition has its own.

    A partition that fails is tried again after a pause that grows to a second: by then it may have another leader.
    Partitions whose marker is under way are left alone meanwhile.
    """

    __slots__ = (
        "_done",
        "_due_at_s",
        "_end",
        "_is_over",
        "_loop",
        "_missing_until_s",
        "_pause_s",
        "_timer",
        "_topics",
        "_writer",
    )

    def __init__(
        self,
        end: TransactionEnd,
        names: Iterable[TopicPartition],
        *,
        loop: AbstractEventLoop,
        topics: Topics,
        writer: Writer,
        patience_s: float,
        done: Callable[[], None],
    ) -> None:
        """`patience_s`: how long a partition may be unknown before it counts as deleted."""
        self._end = end
        self._due_at_s = dict.fromkeys(names, 0.0)
        """When each partition that is left has its marker sent, for the first time or again."""
        self._loop = loop
        self._topics = topics
        self._writer = writer
        self._missing_until_s = loop.time() + patience_s
        self._done = done
        self._pause_s = FIRST_PAUSE_S
        self._is_over = False
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        """Send what is due; partitions that were deleted need nothing."""
        now_s = self._loop.time()
        if now_s >= self._missing_until_s:
            self._due_at_s = {name: due_at_s for name, due_at_s in self._due_at_s.items() if self._exists(name)}
        if not self._due_at_s:
            self._finish()
            return
        due = sorted(name for name, due_at_s in self._due_at_s.items() if due_at_s <= now_s)
        self._due_at_s.update(dict.fromkeys(due, now_s + ATTEMPT_TIMEOUT_S))
        self._arm()
        self._writer.write(self._end, due, self._told)

    def cancel(self) -> None:
        """Send nothing more, and tell nobody: another broker coordinates."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def _exists(self, name: TopicPartition) -> bool:
        topic = self._topics.get(name.topic)
        return topic is not None and name.partition < len(topic.partitions)

    def _told(self, name: TopicPartition, code: ErrorCode) -> None:
        if self._is_over or name not in self._due_at_s:
            return
        if code in _HAS_ENDED:
            del self._due_at_s[name]
            if not self._due_at_s:
                self._finish()
        elif code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            events.warning("marker_fenced", partition=name, producer=self._end.producer_id)
            self.cancel()
        else:
            events.info("marker_delayed", partition=name, producer=self._end.producer_id, code=code.name)
            self._due_at_s[name] = self._loop.time() + self._pause_s
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
            self._arm()

    def _arm(self) -> None:
        """Wake up for whatever is due first."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(min(self._due_at_s.values()), self.start)

    def _finish(self) -> None:
        self.cancel()
        self._done()
