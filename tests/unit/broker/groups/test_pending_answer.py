"""Answers that come later."""

import asyncio

from highwater.broker.pending_answer import PendingAnswer
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.heartbeat import HeartbeatResponse


def _refusal(code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


async def test_an_answer_may_come_between_the_end_of_a_wait_and_its_clean_up() -> None:
    """A connection went while its answer was on the way: a traceback, and whoever came next was never told."""
    pending = PendingAnswer(_refusal)
    waiting = asyncio.create_task(pending.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    pending.resolve(HeartbeatResponse())
    await asyncio.gather(waiting, return_exceptions=True)
    assert waiting.cancelled()
