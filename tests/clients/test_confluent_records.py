"""librdkafka (confluent-kafka): records go in and come out as they were, whatever carries them."""

import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_END,
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

from highwater.testing.waiting import PATIENCE_SECONDS

NewTopic = Callable[..., str]
Read = Callable[..., list[Message]]
CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]


class Deliveries:
    """What became of the records that one test sent."""

    def __init__(self) -> None:
        self.delivered: list[Message] = []
        self.failed: list[KafkaError] = []

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.delivered.append(message)
        else:
            self.failed.append(error)


def send(config: dict[str, Any], topic: str, values: list[bytes], **more: Any) -> Deliveries:
    """Send `values` with a producer of its own and wait until the fate of each is known."""
    deliveries = Deliveries()
    producer = Producer(config)
    for value in values:
        producer.produce(topic, value, on_delivery=deliveries, **more)
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert len(deliveries.delivered) + len(deliveries.failed) == len(values)
    return deliveries


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_brings_back_the_same_bytes(bootstrap: str, topic: str, read: Read, codec: str) -> None:
    values = [f"{codec} {number} ".encode() * 50 for number in range(500)]
    config = {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20}
    assert not send(config, topic, values, partition=0).failed
    assert [record.value() for record in read(topic, len(values))] == values


def test_keys_values_and_headers_may_be_null_or_empty(producer: Producer, topic: str, read: Read) -> None:
    """Null and empty are two things, in a key, a value and a header alike; header names may repeat."""
    headers: list[tuple[str, str | bytes | None]] = [
        ("trace", b"\x00\xff"),
        ("trace", b""),
        ("none", None),
        ("größe", "δ".encode()),
    ]
    producer.produce(topic, key=None, value=None)
    producer.produce(topic, key=b"", value=b"")
    producer.produce(topic, key=b"k", value=b"v", headers=headers)
    producer.flush(PATIENCE_SECONDS)
    null, empty, full = read(topic, 3)
    assert (null.key(), null.value(), null.headers()) == (None, None, None)
    assert (empty.key(), empty.value()) == (b"", b"")
    assert (full.key(), full.value(), full.headers()) == (b"k", b"v", headers)


def test_create_time_is_the_producers(producer: Producer, topic: str, read: Read) -> None:
    now_ms = int(time.time() * 1000)
    stamps = [now_ms, now_ms - 5_000, now_ms + 1]
    for stamp in stamps:
        producer.produce(topic, b"v", timestamp=stamp)
    producer.flush(PATIENCE_SECONDS)
    assert [record.timestamp() for record in read(topic, 3)] == [(TIMESTAMP_CREATE_TIME, stamp) for stamp in stamps]


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_log_append_time_is_the_brokers(bootstrap: str, new_topic: NewTopic, read: Read, codec: str) -> None:
    """Every record of the batch gets the time of the append, though the producer stamped it in 2001."""
    topic = new_topic(config={"message.timestamp.type": "LogAppendTime"})
    before_ms = int(time.time() * 1000)
    config = {"bootstrap.servers": bootstrap, "compression.type": codec}
    sent = send(config, topic, [b"a" * 100, b"b" * 100], timestamp=1_000_000_000_000)
    after_ms = int(time.time() * 1000)
    for record in [*sent.delivered, *read(topic, 2)]:
        kind, stamp = record.timestamp()
        assert kind == TIMESTAMP_LOG_APPEND_TIME
        assert before_ms <= stamp <= after_ms


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_level_of_acknowledgement_writes(bootstrap: str, topic: str, read: Read, acks: str) -> None:
    values = [str(number).encode() for number in range(100)]
    sent = send({"bootstrap.servers": bootstrap, "acks": acks}, topic, values)
    assert not sent.failed
    assert [record.value() for record in read(topic, 100)] == values
    if acks != "0":
        assert [record.offset() for record in sent.delivered] == list(range(100))


def test_an_idempotent_producer_writes_each_record_once_and_in_order(
    bootstrap: str, new_topic: NewTopic, read: Read
) -> None:
    topic = new_topic(partitions=2)
    config = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "batch.num.messages": 10}
    values = [str(number).encode() for number in range(1_000)]
    for partition in (0, 1):
        assert not send(config, topic, values, partition=partition).failed
        assert [record.value() for record in read(topic, 1_000, partition=partition)] == values


def test_a_record_of_just_under_a_megabyte_fits(bootstrap: str, topic: str, read: Read) -> None:
    value = b"x" * 999_000
    config = {"bootstrap.servers": bootstrap, "message.max.bytes": 2_000_000}
    assert not send(config, topic, [value]).failed
    assert read(topic, 1)[0].value() == value


def test_a_ten_megabyte_record_fits_where_the_topic_allows_it(bootstrap: str, new_topic: NewTopic, read: Read) -> None:
    """The consumer asks for 1 MB of a partition at a time and gets the whole batch all the same (KIP-74)."""
    topic = new_topic(config={"max.message.bytes": str(20 << 20)})
    values = [bytes([number]) * (10 << 20) for number in range(3)]
    config = {"bootstrap.servers": bootstrap, "message.max.bytes": 20 << 20}
    assert not send(config, topic, values).failed
    assert [record.value() for record in read(topic, 3)] == values


def test_a_batch_over_max_message_bytes_is_refused_and_the_next_is_not(
    bootstrap: str, new_topic: NewTopic, read: Read
) -> None:
    topic = new_topic(config={"max.message.bytes": "1000"})
    config = {"bootstrap.servers": bootstrap, "linger.ms": 0}
    refused = send(config, topic, [b"x" * 2_000])
    assert [error.code() for error in refused.failed] == [KafkaError.MSG_SIZE_TOO_LARGE]
    assert not send(config, topic, [b"small"]).failed
    assert read(topic, 1)[0].value() == b"small"


def test_a_keyless_record_to_a_compacted_topic_is_refused(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(config={"cleanup.policy": "compact"})
    refused = send({"bootstrap.servers": bootstrap}, topic, [b"no key"])
    assert [error.code() for error in refused.failed] == [KafkaError.INVALID_RECORD]
    assert not send({"bootstrap.servers": bootstrap}, topic, [b"v"], key=b"k").failed


def test_a_partition_that_does_not_exist_is_refused(bootstrap: str, topic: str) -> None:
    refused = send({"bootstrap.servers": bootstrap, "message.timeout.ms": 5_000}, topic, [b"v"], partition=7)
    assert [error.code() for error in refused.failed] == [KafkaError._UNKNOWN_PARTITION]


def test_one_producer_feeds_many_partitions(bootstrap: str, new_topic: NewTopic, read: Read) -> None:
    topic = new_topic(partitions=100)
    deliveries = Deliveries()
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(1_000):
        producer.produce(topic, str(number).encode(), partition=number % 100, on_delivery=deliveries)
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert not deliveries.failed
    for partition in (0, 57, 99):
        expected = [str(number).encode() for number in range(partition, 1_000, 100)]
        assert [record.value() for record in read(topic, 10, partition=partition)] == expected


def test_equal_keys_share_a_partition(bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=8)
    deliveries = Deliveries()
    producer = Producer({"bootstrap.servers": bootstrap, "partitioner": "murmur2_random"})
    for number in range(400):
        producer.produce(topic, b"v", key=str(number % 40).encode(), on_delivery=deliveries)
    assert producer.flush(PATIENCE_SECONDS) == 0
    homes: dict[bytes | None, set[int | None]] = {}
    for record in deliveries.delivered:
        homes.setdefault(record.key(), set()).add(record.partition())
    assert len(homes) == 40
    assert all(len(home) == 1 for home in homes.values())
    assert len({next(iter(home)) for home in homes.values()}) > 1


class TestPositions:
    """Where a consumer without a group starts, and how it moves."""

    @pytest.fixture
    def filled(self, producer: Producer, topic: str) -> str:
        """A topic with the values 0 to 99, stamped a second apart, in batches of ten."""
        for number in range(100):
            producer.produce(topic, str(number).encode(), timestamp=FIRST_STAMP_MS + 1_000 * number)
            if number % 10 == 9:
                producer.flush(PATIENCE_SECONDS)
        return topic

    @pytest.fixture
    def consumer(self, bootstrap: str) -> Any:
        client = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
        yield client
        client.close()

    def test_seek_moves_there_and_back(
        self, consumer: Consumer, filled: str, take_records: Callable[[Consumer, int], list[Message]]
    ) -> None:
        consumer.assign([TopicPartition(filled, 0, OFFSET_BEGINNING)])
        assert take_records(consumer, 1)[0].value() == b"0"
        for offset in (73, 9, 99):
            consumer.seek(TopicPartition(filled, 0, offset))
            assert take_records(consumer, 1)[0].value() == str(offset).encode()

    def test_watermarks_are_the_first_offset_and_one_past_the_last(self, consumer: Consumer, filled: str) -> None:
        assert consumer.get_watermark_offsets(TopicPartition(filled, 0), timeout=PATIENCE_SECONDS) == (0, 100)

    def test_the_offset_of_a_timestamp_is_the_first_record_at_or_after_it(
        self, consumer: Consumer, filled: str
    ) -> None:
        """Exact, also inside a batch; after the last record there is none (-1, the end)."""
        asked = {0: 0, FIRST_STAMP_MS: 0, FIRST_STAMP_MS + 41_500: 42, FIRST_STAMP_MS + 99_000: 99}
        for stamp, offset in asked.items():
            (found,) = consumer.offsets_for_times([TopicPartition(filled, 0, stamp)], timeout=PATIENCE_SECONDS)
            assert found.offset == offset, stamp
        (after,) = consumer.offsets_for_times(
            [TopicPartition(filled, 0, FIRST_STAMP_MS + 99_001)], timeout=PATIENCE_SECONDS
        )
        assert after.offset == OFFSET_END

    def test_a_long_poll_is_woken_by_a_record(
        self,
        consumer: Consumer,
        producer: Producer,
        filled: str,
        take_records: Callable[[Consumer, int], list[Message]],
    ) -> None:
        consumer.assign([TopicPartition(filled, 0, 99)])
        take_records(consumer, 1)
        assert consumer.poll(0.2) is None
        producer.produce(filled, b"awake")
        producer.flush(PATIENCE_SECONDS)
        assert take_records(consumer, 1)[0].value() == b"awake"

    @pytest.mark.parametrize(("reset", "value"), [("earliest", b"0"), ("latest", b"new")])
    def test_an_offset_out_of_range_resets_as_configured(
        self,
        bootstrap: str,
        producer: Producer,
        filled: str,
        reset: str,
        value: bytes,
    ) -> None:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "auto.offset.reset": reset})
        try:
            consumer.assign([TopicPartition(filled, 0, 5_000)])
            record = consumer.poll(0.5)
            while record is None:  # "latest" has nothing to show until a record comes after the reset
                producer.produce(filled, b"new")
                producer.flush(PATIENCE_SECONDS)
                record = consumer.poll(0.5)
            assert record.error() is None
            assert record.value() == value
        finally:
            consumer.close()

    def test_an_offset_out_of_range_is_an_error_where_no_reset_is_wanted(self, bootstrap: str, filled: str) -> None:
        consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "auto.offset.reset": "error"})
        try:
            consumer.assign([TopicPartition(filled, 0, 5_000)])
            event = consumer.poll(PATIENCE_SECONDS)
            assert event is not None
            error = event.error()
            assert error is not None
            assert error.code() == KafkaError._AUTO_OFFSET_RESET
        finally:
            consumer.close()


FIRST_STAMP_MS = int(time.time() * 1000) - 1_000_000


def test_producing_to_an_unknown_topic_creates_it(bootstrap: str, topic_name: str, read: Read) -> None:
    assert not send({"bootstrap.servers": bootstrap}, topic_name, [b"first"]).failed
    assert read(topic_name, 1)[0].value() == b"first"


def test_a_consumer_creates_no_topic_unless_it_asks_to(bootstrap: str, topic_name: str) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    try:
        with pytest.raises(KafkaException) as refused:
            consumer.get_watermark_offsets(TopicPartition(topic_name, 0), timeout=PATIENCE_SECONDS)
        assert refused.value.args[0].code() in {KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC}
        assert topic_name not in consumer.list_topics(timeout=PATIENCE_SECONDS).topics
    finally:
        consumer.close()
