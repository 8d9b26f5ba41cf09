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

RETRY_S: Final = 0.1
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
    """Sends the markers of one transaction until every partition has its own."""

    __slots__ = ("_done", "_end", "_is_over", "_left", "_loop", "_timer", "_topics", "_writer")

    def __init__(
        self,
        end: TransactionEnd,
        names: Iterable[TopicPartition],
        *,
        loop: AbstractEventLoop,
        topics: Topics,
        writer: Writer,
        done: Callable[[], None],
    ) -> None:
        self._end = end
        self._left = set(names)
        self._loop = loop
        self._topics = topics
        self._writer = writer
        self._done = done
        self._is_over = False
        self._timer: TimerHandle | None = None

    def start(self) -> None:
        """Send what is left; partitions that were deleted need nothing."""
        self._left = {name for name in self._left if self._exists(name)}
        if not self._left:
            self._finish()
            return
        self._again_in(ATTEMPT_TIMEOUT_S)
        self._writer.write(self._end, sorted(self._left), self._told)

    def cancel(self) -> None:
        """Send nothing more, and tell nobody: another broker coordinates."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()

    def _exists(self, name: TopicPartition) -> bool:
        topic = self._topics.get(name.topic)
        return topic is not None and name.partition < len(topic.partitions)

    def _told(self, name: TopicPartition, code: ErrorCode) -> None:
        if self._is_over:
            return
        if code in _HAS_ENDED:
            self._left.discard(name)
            if not self._left:
                self._finish()
        elif code is ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            events.warning("marker_fenced", partition=name, producer=self._end.producer_id)
            self.cancel()
        else:
            self._again_in(RETRY_S)

    def _again_in(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(delay_s, self.start)

    def _finish(self) -> None:
        self.cancel()
        self._done()
