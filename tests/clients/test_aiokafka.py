"""aiokafka: produce, consume and administer from asyncio, without a group."""

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, RecordsToDelete
from aiokafka.admin import NewTopic as TopicAsked
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import MessageSizeTooLargeError

from highwater.testing.waiting import PATIENCE_SECONDS

NewTopic = Callable[..., str]
CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run one test's coroutine to its end, or fail."""
    asyncio.run(asyncio.wait_for(work, PATIENCE_SECONDS))


async def send_all(bootstrap: str, topic: str, values: list[bytes], **settings: Any) -> list[Any]:
    """Send `values` to partition 0 and return what the broker said of each."""
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, **settings) as producer:
        futures = [await producer.send(topic, value, partition=0) for value in values]
        return [await future for future in futures]


async def read(bootstrap: str, topic: str, count: int, *, offset: int = 0, **settings: Any) -> list[Any]:
    """Read `count` records of partition 0."""
    async with AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None, **settings) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek(TopicPartition(topic, 0), offset)
        return [await consumer.getone() for _ in range(count)]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_brings_back_the_same_bytes(bootstrap: str, topic: str, codec: str | None) -> None:
    values = [f"{codec} {number} ".encode() * 20 for number in range(300)]

    async def work() -> None:
        sent = await send_all(bootstrap, topic, values, compression_type=codec, linger_ms=20)
        assert [record.offset for record in sent] == list(range(300))
        assert [record.value for record in await read(bootstrap, topic, 300)] == values

    run(work())


@pytest.mark.parametrize("settings", [{"acks": 0}, {"acks": 1}, {"acks": "all"}, {"enable_idempotence": True}], ids=str)
def test_every_level_of_acknowledgement_writes(bootstrap: str, topic: str, settings: dict[str, Any]) -> None:
    values = [str(number).encode() for number in range(50)]

    async def work() -> None:
        await send_all(bootstrap, topic, values, **settings)
        assert [record.value for record in await read(bootstrap, topic, 50)] == values

    run(work())


def test_keys_headers_nulls_and_timestamps_come_back_as_sent(bootstrap: str, topic: str) -> None:
    stamp_ms = int(time.time() * 1000) - 12_345
    headers = [("a", b"1"), ("a", b""), ("b", b"\x00")]

    async def work() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait(topic, b"v", b"k", headers=headers, timestamp_ms=stamp_ms)
            await producer.send_and_wait(topic, None, b"tombstone")
        full, tombstone = await read(bootstrap, topic, 2)
        assert (full.key, full.value, list(full.headers), full.timestamp) == (b"k", b"v", headers, stamp_ms)
        assert (tombstone.key, tombstone.value) == (b"tombstone", None)

    run(work())


def test_a_batch_over_max_message_bytes_is_refused(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(config={"max.message.bytes": "1000"})

    async def work() -> None:
        with pytest.raises(MessageSizeTooLargeError):
            await send_all(bootstrap, topic, [b"x" * 2_000])

    run(work())


def test_a_reader_that_waits_gets_the_record_when_it_comes(bootstrap: str, topic: str) -> None:
    async def work() -> None:
        waiting = asyncio.create_task(read(bootstrap, topic, 1))
        await send_all(bootstrap, topic, [b"at last"])
        assert [record.value for record in await waiting] == [b"at last"]

    run(work())


def test_offsets_are_found_by_timestamp_and_at_both_ends(bootstrap: str, topic: str) -> None:
    first_ms = int(time.time() * 1000) - 100_000

    async def work() -> None:
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            for number in range(20):
                await producer.send(topic, str(number).encode(), timestamp_ms=first_ms + 1_000 * number)
        partition = TopicPartition(topic, 0)
        async with AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None) as consumer:
            assert await consumer.beginning_offsets([partition]) == {partition: 0}
            assert await consumer.end_offsets([partition]) == {partition: 20}
            found = await consumer.offsets_for_times({partition: first_ms + 6_500})
            assert found[partition].offset == 7

    run(work())


def test_topics_are_created_listed_grown_changed_emptied_and_deleted(bootstrap: str, topic_name: str) -> None:
    async def work() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()
        try:
            await admin.create_topics([TopicAsked(topic_name, 1, 1)])
            await eventually(lambda: listed(admin, topic_name))
            await admin.create_partitions({topic_name: NewPartitions(3)})
            resource = ConfigResource(ConfigResourceType.TOPIC, topic_name, configs={"retention.ms": "7200000"})
            await admin.alter_configs([resource])
            described = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic_name)])
            assert "7200000" in str(described)
            await send_all(bootstrap, topic_name, [b"1", b"2", b"3"])
            partition = TopicPartition(topic_name, 0)
            deleted = await admin.delete_records({partition: RecordsToDelete(before_offset=2)})
            assert deleted == {partition: 2}
            await admin.delete_topics([topic_name])
            await eventually(lambda: not_listed(admin, topic_name))
        finally:
            await admin.close()

    run(work())


async def listed(admin: AIOKafkaAdminClient, topic: str) -> bool:
    return topic in await admin.list_topics()


async def not_listed(admin: AIOKafkaAdminClient, topic: str) -> bool:
    return topic not in await admin.list_topics()


async def eventually(condition: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    """Wait for what the broker promises to do soon; the test's own time limit ends it."""
    while not await condition():  # noqa: ASYNC110 - the broker cannot tell us
        await asyncio.sleep(0.02)
