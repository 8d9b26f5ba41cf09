"""An answer that comes after whoever waited for it has gone."""

import asyncio

import pytest

from highwater.broker.pending_answer import PendingAnswer
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.heartbeat import HeartbeatResponse

HERE = HeartbeatResponse()


def refused(code: ErrorCode) -> HeartbeatResponse:
    return HeartbeatResponse(error_code=code)


async def test_an_answer_for_one_who_was_cancelled_a_moment_ago_is_dropped() -> None:
    """Before: the error that this raised kept all the others in the same flight from being told."""
    pending = PendingAnswer(refused)
    waiting = asyncio.create_task(pending.wait())
    await asyncio.sleep(0)
    waiting.cancel()
    pending.resolve(HERE)
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_who_waits_gets_the_answer_whenever_it_comes() -> None:
    early = PendingAnswer(refused)
    early.resolve(HERE)
    assert await early.wait() is HERE
    late = PendingAnswer(refused)
    waiting = asyncio.create_task(late.wait())
    await asyncio.sleep(0)
    late.resolve(HERE)
    assert await waiting is HERE
