"""The shards of a coordinator come, go, and come again when something failed."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from highwater.broker import shards
from highwater.broker.shards import Shards
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import TopicPartition
from highwater.testing.waiting import PATIENCE_SECONDS


class FakeShard:
    def __init__(self) -> None:
        self.is_started = False

    def start(self) -> None:
        self.is_started = True

    def stop(self, _: KafkaError) -> None:
        self.is_started = False


async def until_there(found: Shards[FakeShard]) -> FakeShard:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            try:
                return found.at(0)
            except KafkaError:
                await asyncio.sleep(0.001)


async def test_a_partition_that_could_not_be_loaded_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients are sent to us for as long as we lead it: giving up would leave its groups without a coordinator."""
    monkeypatch.setattr(shards, "RELOAD_DELAY_S", 0.001)
    attempts = 0

    async def load(_: Any) -> tuple[FakeShard, int]:
        nonlocal attempts
        attempts += 1
        if attempts < 3:
            raise KafkaError("the disk is slow to answer", code=ErrorCode.KAFKA_STORAGE_ERROR)
        return FakeShard(), 7

    loaded: Shards[FakeShard] = Shards(asyncio.get_running_loop(), load)
    partition: Any = SimpleNamespace(name=TopicPartition("__consumer_offsets", 0), leads=True)
    loaded.lead(partition)
    assert (await until_there(loaded)).is_started
    assert attempts == 3


async def test_a_partition_that_is_led_elsewhere_by_then_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "RELOAD_DELAY_S", 0.001)
    attempts = 0

    async def load(_: Any) -> tuple[FakeShard, int]:
        nonlocal attempts
        attempts += 1
        partition.leads = False
        raise KafkaError("the disk is slow to answer", code=ErrorCode.KAFKA_STORAGE_ERROR)

    loaded: Shards[FakeShard] = Shards(asyncio.get_running_loop(), load)
    partition: Any = SimpleNamespace(name=TopicPartition("__consumer_offsets", 0), leads=True)
    loaded.lead(partition)
    await loaded.until_loaded()
    await asyncio.sleep(0.02)
    assert attempts == 1
    with pytest.raises(KafkaError) as refused:
        loaded.at(0)
    assert refused.value.code is ErrorCode.NOT_COORDINATOR
