"""A Produce with the first batches of a transaction in some partitions: they wait for the transaction's coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.broker.delayed_produce import DelayedProduce

if TYPE_CHECKING:
    from collections.abc import Callable

    from highwater.broker.appends import Appends
    from highwater.model.errors import ErrorCode
    from highwater.protocol.messages.produce import ProduceResponse


class HeldProduce:
    """Appends when the coordinator has answered, then waits like any other Produce.

    Those of one producer come free in the order in which they came, because the coordinator answers in order.
    """

    __slots__ = ("_answer", "_appends", "_is_cancelled", "_let_in", "_outcome", "is_late")

    def __init__(self, appends: Appends, let_in: Callable[[list[ErrorCode]], ProduceResponse | DelayedProduce]) -> None:
        """`let_in` takes the coordinator's word on each batch, and appends those that it lets in."""
        self._appends = appends
        self._let_in = let_in
        self._answer: Callable[[ProduceResponse], None] | None = None
        self._outcome: ProduceResponse | DelayedProduce | None = None
        self._is_cancelled = False
        self.is_late = False
        """Whether nobody else writes what is appended now: the turn of the request's connection is over."""

    @property
    def is_decided(self) -> bool:
        """Whether the coordinator has answered."""
        return self._outcome is not None

    def decided(self, codes: list[ErrorCode]) -> None:
        """Go on: the coordinator has answered."""
        if self._is_cancelled:
            return
        self._outcome = self._let_in(codes)
        if self.is_late:
            self._appends.finish()
            self._go_on()

    def start(self, answer: Callable[[ProduceResponse], None]) -> None:
        """Answer when everything is done."""
        self._answer = answer
        self._go_on()

    def cancel(self) -> None:
        """The client is gone; what was not appended yet is dropped, as if it had never arrived."""
        self._is_cancelled = True
        if isinstance(self._outcome, DelayedProduce):
            self._outcome.cancel()

    def _go_on(self) -> None:
        if self._answer is None or self._outcome is None:
            return
        if isinstance(self._outcome, DelayedProduce):
            self._outcome.start(self._answer)
        else:
            self._answer(self._outcome)
