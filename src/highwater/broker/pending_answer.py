"""An answer that a coordinator gives when it can: at once, when others have joined, or when a decision is committed."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from highwater.broker.journal import Journal
from highwater.model.errors import ErrorCode, KafkaError

ResponseT = TypeVar("ResponseT")
"""A message; without a bound, because a native one is no `schema.Message`."""


class PendingAnswer(Generic[ResponseT]):
    """A place for one response; whoever waits for it may come before or after it is there, or go away."""

    __slots__ = ("_answer", "_refusal", "_response")

    def __init__(self, refusal: Callable[[ErrorCode], ResponseT]) -> None:
        self._refusal = refusal
        self._answer: Callable[[ResponseT], None] | None = None
        self._response: ResponseT | None = None

    def start(self, answer: Callable[[ResponseT], None]) -> None:
        """Hand over the response: now if it is there, otherwise when it comes."""
        if self._response is not None:
            answer(self._response)
        else:
            self._answer = answer

    def cancel(self) -> None:
        """Nobody waits any more; a response that comes later is dropped."""
        self._answer = None

    async def wait(self) -> ResponseT:
        """Return the response when it is there: for those who are not called but wait themselves."""
        arrived: asyncio.Future[ResponseT] = asyncio.get_running_loop().create_future()

        def arrive(response: ResponseT) -> None:
            if not arrived.done():  # whoever waited may have been cancelled, and not have come round to say so
                arrived.set_result(response)

        self.start(arrive)
        try:
            return await arrived
        finally:
            self.cancel()

    def resolve(self, response: ResponseT) -> None:
        """Give the response. The first one counts."""
        if self._response is not None:
            return
        self._response = response
        answer, self._answer = self._answer, None
        if answer is not None:
            answer(response)

    def refuse(self, error: KafkaError) -> None:
        """Give the API's own form of this error."""
        self.resolve(self._refusal(error.code))


def when_committed(
    journals: Iterable[Journal], response: ResponseT, refusal: Callable[[ErrorCode], ResponseT]
) -> ResponseT | PendingAnswer[ResponseT]:
    """Return the response, or the wait for it: until all that the journals hold is committed.

    So nobody is told, by an answer to a write or to a read, what a fail-over could still take back.
    """
    busy = [journal for journal in dict.fromkeys(journals) if journal.is_busy]
    if not busy:
        return response
    pending = PendingAnswer(refusal)
    left = len(busy)

    def done(error: KafkaError | None) -> None:
        nonlocal left
        left -= 1
        if error is not None:
            pending.refuse(error)
        elif left == 0:
            pending.resolve(response)

    for journal in busy:
        journal.when_committed(done)
    return pending
