"""aiokafka in a group."""

import asyncio
import uuid
from collections.abc import Callable
from contextlib import AsyncExitStack

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from highwater.testing.waiting import PATIENCE_SECONDS

ASSIGNORS = [RangePartitionAssignor, RoundRobinPartitionAssignor, StickyPartitionAssignor]


def test_a_group_goes_on_where_it_committed(bootstrap: str, topic: str) -> None:
    group = f"group-{uuid.uuid4().hex[:8]}"

    async def work() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for number in range(10):
                await producer.send_and_wait(topic, str(number).encode())
        settings = {"bootstrap_servers": bootstrap, "group_id": group, "auto_offset_reset": "earliest"}
        async with AIOKafkaConsumer(topic, enable_auto_commit=False, **settings) as first:
            assert [int((await first.getone()).value) for _ in range(4)] == [0, 1, 2, 3]
            await first.commit({TopicPartition(topic, 0): 4})
        async with AIOKafkaConsumer(topic, **settings) as second:
            assert [int((await second.getone()).value) for _ in range(6)] == [4, 5, 6, 7, 8, 9]

    asyncio.run(asyncio.wait_for(work(), PATIENCE_SECONDS))


@pytest.mark.parametrize("assignor", ASSIGNORS, ids=lambda assignor: assignor.name)
def test_two_members_share_four_partitions(bootstrap: str, new_topic: Callable[..., str], assignor: type) -> None:
    topic = new_topic(partitions=4)

    async def work() -> None:
        async with AsyncExitStack() as stack:
            members = [
                await stack.enter_async_context(
                    AIOKafkaConsumer(
                        topic,
                        bootstrap_servers=bootstrap,
                        group_id=topic,
                        partition_assignment_strategy=[assignor],
                        heartbeat_interval_ms=200,
                    )
                )
                for _ in range(2)
            ]
            while [len(consumer.assignment()) for consumer in members] != [2, 2]:
                await asyncio.gather(*(consumer.getmany(timeout_ms=100) for consumer in members))

    asyncio.run(asyncio.wait_for(work(), PATIENCE_SECONDS))
