"""A Produce that waits until everything it appended is committed, or on our own disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.model.errors import ErrorCode

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle
    from collections.abc import Callable

    from highwater.broker.partition import Partition
    from highwater.model.ids import Offset
    from highwater.protocol.messages.produce import PartitionProduceResponse, ProduceResponse


class _Awaited:
    """One partition's part of the wait."""

    __slots__ = ("_produce", "end_offset", "for_all", "partition", "receipt")

    def __init__(
        self,
        produce: DelayedProduce,
        partition: Partition,
        end_offset: Offset,
        receipt: PartitionProduceResponse,
        for_all: bool,  # noqa: FBT001 - a keyword costs on this path
    ) -> None:
        self._produce = produce
        self.for_all = for_all
        self.partition = partition
        self.end_offset = end_offset
        self.receipt = receipt

    def begin(self) -> bool:
        """Return whether there is nothing to wait for."""
        wait = self.partition.when_committed if self.for_all else self.partition.when_synced
        return wait(self.end_offset, self)

    def committed(self) -> None:
        self._produce.one_committed(self)

    def refused(self, code: ErrorCode) -> None:
        self.receipt.error_code = code
        self.receipt.base_offset = -1
        self._produce.one_committed(self)


class DelayedProduce:
    """Answers when the high watermark of every partition has passed what was appended, or when time is up."""

    __slots__ = ("_answer", "_awaited", "_loop", "_response", "_timeout_ms", "_timer", "_waiting")

    def __init__(self, loop: AbstractEventLoop, response: ProduceResponse, *, timeout_ms: int) -> None:
        self._loop = loop
        self._response = response
        self._timeout_ms = timeout_ms
        self._awaited: list[_Awaited] = []
        self._waiting: dict[_Awaited, None] = {}
        self._answer: Callable[[ProduceResponse], None] | None = None
        self._timer: TimerHandle | None = None

    def expect(
        self, partition: Partition, end_offset: Offset, receipt: PartitionProduceResponse, *, for_all: bool
    ) -> None:
        """Wait for all below `end_offset` of this partition: for every replica in sync, or for our own disk."""
        self._awaited.append(_Awaited(self, partition, end_offset, receipt, for_all))

    def start(self, answer: Callable[[ProduceResponse], None]) -> None:
        """Answer at once if everything is committed already; otherwise wait, at most for the request's timeout."""
        for awaited in self._awaited:
            if awaited.receipt.error_code != ErrorCode.NONE:
                continue  # its write failed: the answer is known
            if not awaited.begin():
                self._waiting[awaited] = None
        if not self._waiting:
            answer(self._response)
            return
        self._answer = answer
        self._timer = self._loop.call_later(self._timeout_ms / 1000, self._time_is_up)

    def one_committed(self, awaited: _Awaited) -> None:
        """Note one partition's outcome; the last one answers."""
        self._waiting.pop(awaited, None)
        if not self._waiting:
            self._finish()

    def _time_is_up(self) -> None:
        for awaited in self._waiting:
            awaited.partition.forget(awaited)
            awaited.receipt.error_code = ErrorCode.REQUEST_TIMED_OUT
        self._waiting.clear()
        self._finish()

    def _finish(self) -> None:
        answer, self._answer = self._answer, None
        if self._timer is not None:
            self._timer.cancel()
        if answer is not None:
            answer(self._response)

    def cancel(self) -> None:
        """The client is gone; what was appended stays."""
        self._answer = None
        if self._timer is not None:
            self._timer.cancel()
        for awaited in self._waiting:
            awaited.partition.forget(awaited)
        self._waiting.clear()
