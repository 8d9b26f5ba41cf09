"""A coordinator's journal: nobody is told of what is not committed, and nobody waits for ever."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

from highwater.broker.appends import Appends
from highwater.broker.journal import Journal, JournalSettings
from highwater.broker.partition import Partition
from highwater.model.errors import ErrorCode, KafkaError


class SlowPartition:
    """A partition whose replicas do not confirm."""

    log = SimpleNamespace(log_end_offset=3)

    def when_committed(self, end_offset: int, waiter: Any) -> bool:
        assert end_offset == 3
        self.waiter = waiter
        return False


def codes(told: list[KafkaError | None]) -> list[ErrorCode]:
    return [ErrorCode.NONE if error is None else error.code for error in told]


async def test_whoever_comes_when_replicas_are_late_already_does_not_wait_for_ever_either() -> None:
    """Only those who came before the first time limit had one: others were never told."""
    loop = asyncio.get_running_loop()
    partition = SlowPartition()
    journal = Journal(
        cast("Partition", partition),
        loop=loop,
        appends=cast("Appends", None),
        wall_ms=lambda: 0,
        settings=JournalSettings(commit_timeout_ms=1),
        on_failure=lambda _: None,
    )
    told: list[KafkaError | None] = []
    for count in (1, 2):
        done = loop.create_future()
        journal.when_committed(told.append)
        journal.when_committed(done.set_result)
        await asyncio.wait_for(done, 10)
        assert codes(told) == [ErrorCode.COORDINATOR_NOT_AVAILABLE] * count
    journal.when_committed(told.append)
    partition.waiter.committed()
    assert codes(told)[2:] == [ErrorCode.NONE]
    assert not journal.is_busy
