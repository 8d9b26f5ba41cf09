"""aiokafka's transactions: consume, transform, produce, with instances that die with a transaction open."""

import asyncio
import contextlib
import uuid
from collections.abc import Callable

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced

from highwater.testing.waiting import PATIENCE_SECONDS

NewTopic = Callable[..., str]
RECORDS = 60


class Failed(Exception):
    """The application gives up within a transaction."""


async def committed(bootstrap: str, topic: str) -> list[str]:
    """Everything that readers of committed records see."""
    place = TopicPartition(topic, 0)
    async with AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=None, isolation_level="read_committed"
    ) as consumer:
        consumer.assign([place])
        await consumer.seek_to_beginning(place)
        ends = await consumer.end_offsets([place])
        found = []
        while await consumer.position(place) < ends[place]:
            for records in (await consumer.getmany(place, timeout_ms=200)).values():
                found += [record.value.decode() for record in records]
        return found


async def transform(bootstrap: str, transactional_id: str, group: str, source: str, target: str, *, most: int) -> bool:
    """Move records in transactions until `most` were committed, then die within one; return whether all is done."""
    place = TopicPartition(source, 0)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=group, enable_auto_commit=False, isolation_level="read_committed"
    )
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=transactional_id)
    await producer.start()  # which ends what the one before has left open, and so the offsets are settled
    await consumer.start()
    try:
        consumer.assign([place])
        position = await consumer.committed(place) or 0
        for _ in range(most):
            consumer.seek(place, position)
            if position >= RECORDS:
                return True
            records = (await consumer.getmany(place, max_records=7, timeout_ms=int(PATIENCE_SECONDS * 1000)))[place]
            async with producer.transaction():
                for record in records:
                    await producer.send(target, record.value + b"!", partition=0)
                await producer.send_offsets_to_transaction({place: records[-1].offset + 1}, group)
            position = records[-1].offset + 1
        await producer.begin_transaction()
        await producer.send_and_wait(target, b"never", partition=0)
        return False
    finally:
        await consumer.stop()
        await producer.stop()  # which leaves its transaction open, as a crash would


def test_consume_transform_produce_counts_everything_once_however_often_it_dies(
    bootstrap: str, new_topic: NewTopic
) -> None:
    source, target = new_topic(), new_topic()
    name = uuid.uuid4().hex[:8]

    async def work() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for number in range(RECORDS):
                await producer.send(source, str(number).encode(), partition=0)
        while not await transform(bootstrap, name, name, source, target, most=4):
            pass
        assert await committed(bootstrap, target) == [f"{number}!" for number in range(RECORDS)]

    asyncio.run(asyncio.wait_for(work(), 2 * PATIENCE_SECONDS))


def test_what_fails_is_aborted_and_a_zombie_is_fenced(bootstrap: str, topic: str) -> None:
    name = uuid.uuid4().hex[:8]

    async def work() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name) as first:
            with contextlib.suppress(Failed):
                async with first.transaction():
                    await first.send_and_wait(topic, b"never", partition=0)
                    raise Failed
            await first.begin_transaction()
            await first.send_and_wait(topic, b"never either", partition=0)
            async with AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name) as second:
                async with second.transaction():
                    await second.send_and_wait(topic, b"ever", partition=0)
                with pytest.raises(ProducerFenced):
                    await first.commit_transaction()
        assert await committed(bootstrap, topic) == ["ever"]

    asyncio.run(asyncio.wait_for(work(), PATIENCE_SECONDS))
