"""kafka-python: produce, consume and administer, without a group."""

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import (
    ConfigResource,
    ConfigResourceType,
    NewPartitions,
)
from kafka.admin import (
    NewTopic as TopicAsked,
)
from kafka.errors import (
    InvalidConfigurationError,
    MessageSizeTooLargeError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
)

from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

NewTopic = Callable[..., str]
CODECS = [None, "gzip", "snappy", "lz4", "zstd"]


def send_all(bootstrap: str, topic: str, values: list[bytes], **settings: Any) -> list[Any]:
    """Send `values` to partition 0 and return what the broker said of each."""
    with closing(KafkaProducer(bootstrap_servers=bootstrap, **settings)) as producer:
        futures = [producer.send(topic, value, partition=0) for value in values]
        producer.flush(PATIENCE_SECONDS)
        return [future.get(PATIENCE_SECONDS) for future in futures]


@pytest.fixture
def consumer(bootstrap: str) -> Iterator[KafkaConsumer]:
    """A consumer without a group that is told where to start."""
    with closing(KafkaConsumer(bootstrap_servers=bootstrap, group_id=None, auto_offset_reset="earliest")) as client:
        yield client


def take(consumer: KafkaConsumer, count: int) -> list[Any]:
    """Poll until `count` records have come."""
    records: list[Any] = []

    def enough() -> bool:
        for arrived in consumer.poll(timeout_ms=500).values():
            records.extend(arrived)
        return len(records) >= count

    wait_until(enough, f"{count} records")
    return records[:count]


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_brings_back_the_same_bytes(
    bootstrap: str, topic: str, consumer: KafkaConsumer, codec: str | None
) -> None:
    values = [f"{codec} {number} ".encode() * 20 for number in range(300)]
    sent = send_all(bootstrap, topic, values, compression_type=codec, linger_ms=20)
    assert [record.offset for record in sent] == list(range(300))
    consumer.assign([TopicPartition(topic, 0)])
    assert [record.value for record in take(consumer, 300)] == values


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_level_of_acknowledgement_writes(
    bootstrap: str, topic: str, consumer: KafkaConsumer, acks: int | str
) -> None:
    values = [str(number).encode() for number in range(50)]
    send_all(bootstrap, topic, values, acks=acks, enable_idempotence=False)
    consumer.assign([TopicPartition(topic, 0)])
    assert [record.value for record in take(consumer, 50)] == values


def test_keys_headers_nulls_and_timestamps_come_back_as_sent(
    bootstrap: str, topic: str, consumer: KafkaConsumer
) -> None:
    stamp_ms = int(time.time() * 1000) - 12_345
    headers = [("a", b"1"), ("a", b""), ("b", b"\x00")]
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        producer.send(topic, value=b"v", key=b"k", headers=headers, timestamp_ms=stamp_ms)
        producer.send(topic, value=None, key=b"tombstone")
        producer.flush(PATIENCE_SECONDS)
    consumer.assign([TopicPartition(topic, 0)])
    full, tombstone = take(consumer, 2)
    assert (full.key, full.value, list(full.headers), full.timestamp) == (b"k", b"v", headers, stamp_ms)
    assert (tombstone.key, tombstone.value) == (b"tombstone", None)


def test_a_batch_over_max_message_bytes_is_refused(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(config={"max.message.bytes": "1000"})
    with pytest.raises(MessageSizeTooLargeError):
        send_all(bootstrap, topic, [b"x" * 2_000])


def test_seek_and_offsets_by_timestamp_find_the_record(bootstrap: str, topic: str, consumer: KafkaConsumer) -> None:
    first_ms = int(time.time() * 1000) - 100_000
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        for number in range(20):
            producer.send(topic, str(number).encode(), timestamp_ms=first_ms + 1_000 * number)
        producer.flush(PATIENCE_SECONDS)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 17)
    assert take(consumer, 1)[0].value == b"17"
    assert consumer.beginning_offsets([partition]) == {partition: 0}
    assert consumer.end_offsets([partition]) == {partition: 20}
    assert consumer.offsets_for_times({partition: first_ms + 6_500})[partition].offset == 7


def test_an_unknown_topic_is_created_by_its_first_producer(
    bootstrap: str, topic_name: str, consumer: KafkaConsumer
) -> None:
    send_all(bootstrap, topic_name, [b"first"])
    consumer.assign([TopicPartition(topic_name, 0)])
    assert take(consumer, 1)[0].value == b"first"


class TestAdmin:
    @pytest.fixture
    def client(self, bootstrap: str) -> Iterator[KafkaAdminClient]:
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as client:
            yield client

    def test_topics_are_created_listed_described_grown_and_deleted(
        self, client: KafkaAdminClient, topic_name: str
    ) -> None:
        client.create_topics([TopicAsked(topic_name, 2, 1)])
        wait_until(lambda: topic_name in client.list_topics())
        client.create_partitions({topic_name: NewPartitions(5)})
        wait_until(lambda: len(client.describe_topics([topic_name])[0]["partitions"]) == 5)
        client.delete_topics([topic_name])
        wait_until(lambda: topic_name not in client.list_topics())

    def test_errors_carry_their_kafka_names(self, client: KafkaAdminClient, topic: str, topic_name: str) -> None:
        with pytest.raises(TopicAlreadyExistsError):
            client.create_topics([TopicAsked(topic, 1, 1)])
        with pytest.raises(UnknownTopicOrPartitionError):
            client.delete_topics([topic_name])
        with pytest.raises(InvalidConfigurationError):
            client.create_topics([TopicAsked(topic_name, 1, 1, topic_configs={"retention.ms": "soon"})])

    def test_settings_are_changed_and_described(self, client: KafkaAdminClient, topic: str) -> None:
        client.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs={"retention.ms": "7200000"})])
        described = client.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
        assert "7200000" in str(described)

    def test_deleted_records_are_gone(self, client: KafkaAdminClient, bootstrap: str, topic: str) -> None:
        send_all(bootstrap, topic, [b"1", b"2", b"3"])
        client.delete_records({TopicPartition(topic, 0): 2})
        with closing(KafkaConsumer(bootstrap_servers=bootstrap, group_id=None)) as consumer:
            assert consumer.beginning_offsets([TopicPartition(topic, 0)]) == {TopicPartition(topic, 0): 2}

    def test_the_cluster_is_described(self, client: KafkaAdminClient, bootstrap: str) -> None:
        cluster = client.describe_cluster()
        assert [f"{broker['host']}:{broker['port']}" for broker in cluster["brokers"]] == [bootstrap]
