"""librdkafka's transactions: all or nothing over partitions and offsets, and nothing of what was aborted."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from highwater.testing.plugin import BrokerFactory
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until
from highwater.testing.wire import WireClient

NewTopic = Callable[..., str]
MakeProducer = Callable[..., Producer]


@pytest.fixture
def transactional_id() -> str:
    return f"id-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def transactional(bootstrap: str, transactional_id: str) -> MakeProducer:
    """Make a producer of the test's transactional id, ready to begin."""

    def make(**settings: Any) -> Producer:
        config = {"bootstrap.servers": bootstrap, "transactional.id": transactional_id, "linger.ms": 0}
        config |= {name.replace("_", "."): value for name, value in settings.items()}
        producer = Producer(config)
        producer.init_transactions(PATIENCE_SECONDS)
        return producer

    return make


@pytest.fixture
def committed_reader(bootstrap: str) -> Iterator[Callable[..., Consumer]]:
    """Make consumers that read committed records only."""
    made: list[Consumer] = []

    def make(*partitions: TopicPartition, group: str = "unused", **settings: Any) -> Consumer:
        config: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
        consumer = Consumer(config | {name.replace("_", "."): value for name, value in settings.items()})
        made.append(consumer)
        if partitions:
            consumer.assign(list(partitions))
        return consumer

    yield make
    for consumer in made:
        consumer.close()


def values(consumer: Consumer, *, partitions: int = 1) -> list[str]:
    """Everything up to the end of all partitions that the consumer reads."""
    found: list[str] = []
    ended: set[int | None] = set()

    def is_read() -> bool:
        for record in consumer.consume(1_000, 0.2):
            error = record.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                ended.add(record.partition())
            else:
                value = record.value()
                assert value is not None
                found.append(value.decode())
        return len(ended) >= partitions

    wait_until(is_read, "the end of the topic")
    return found


def up_to(count: int, consumer: Consumer) -> list[str]:
    """The next records, fewer if there are no more."""
    found: list[str] = []
    while len(found) < count:
        record = consumer.poll(PATIENCE_SECONDS)
        assert record is not None, "neither a record nor the end"
        if record.error() is not None:
            break
        value = record.value()
        assert value is not None
        found.append(value.decode())
    return found


def send(producer: Producer, topic: str, *texts: str, partition: int = 0) -> None:
    for text in texts:
        producer.produce(topic, text.encode(), partition=partition)
    assert producer.flush(PATIENCE_SECONDS) == 0


def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    transactional: MakeProducer, committed_reader: Callable[..., Consumer], new_topic: NewTopic
) -> None:
    topic = new_topic(partitions=2)
    producer = transactional()
    for number in range(10):
        producer.begin_transaction()
        for partition in range(2):
            send(producer, topic, f"{number} first", f"{number} second", partition=partition)
        if number % 3:
            producer.commit_transaction(PATIENCE_SECONDS)
        else:
            producer.abort_transaction(PATIENCE_SECONDS)
    expected = [f"{number} {place}" for number in range(10) if number % 3 for place in ("first", "second")]
    for partition in range(2):
        assert values(committed_reader(TopicPartition(topic, partition, 0))) == expected
    everything = committed_reader(TopicPartition(topic, 0, 0), isolation_level="read_uncommitted")
    assert len(values(everything)) == 20


def test_an_open_transaction_holds_readers_of_committed_records_back(
    transactional: MakeProducer, committed_reader: Callable[..., Consumer], topic: str, producer: Producer
) -> None:
    open_one = transactional()
    send(producer, topic, "before")
    open_one.begin_transaction()
    send(open_one, topic, "within")
    send(producer, topic, "after")
    reader = committed_reader(TopicPartition(topic, 0, 0))
    assert values(reader) == ["before"]
    open_one.commit_transaction(PATIENCE_SECONDS)
    assert values(reader) == ["within", "after"]


def test_a_waiting_reader_is_woken_by_the_commit_however_much_it_asked_for(
    transactional: MakeProducer, committed_reader: Callable[..., Consumer], topic: str
) -> None:
    """The marker has a few bytes; what it lets through has many."""
    open_one = transactional()
    open_one.begin_transaction()
    send(open_one, topic, "x" * 5_000)
    reader = committed_reader(
        TopicPartition(topic, 0, 0), fetch_min_bytes=4_000, fetch_wait_max_ms=int(PATIENCE_SECONDS * 1000) * 2,
        enable_partition_eof=False, session_timeout_ms=6_000, socket_timeout_ms=120_000,
    )  # fmt: skip
    assert reader.poll(0.5) is None
    open_one.commit_transaction(PATIENCE_SECONDS)
    record = reader.poll(PATIENCE_SECONDS)
    assert record is not None
    assert record.value() == b"x" * 5_000


def test_offsets_are_committed_with_the_transaction_or_not_at_all(
    transactional: MakeProducer, committed_reader: Callable[..., Consumer], topic: str
) -> None:
    group = f"group-{uuid.uuid4().hex[:8]}"
    consumer = committed_reader(TopicPartition(topic, 0, 0), group=group)
    producer = transactional()

    def committed() -> int:
        (found,) = consumer.committed([TopicPartition(topic, 0)], PATIENCE_SECONDS)
        return found.offset

    for offset, commits in ((5, True), (9, False), (12, True)):
        before = committed()
        producer.begin_transaction()
        send(producer, topic, "some")
        producer.send_offsets_to_transaction(
            [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), PATIENCE_SECONDS
        )
        if commits:
            producer.commit_transaction(PATIENCE_SECONDS)
        else:
            producer.abort_transaction(PATIENCE_SECONDS)
        assert committed() == (offset if commits else before)


def test_a_zombie_is_fenced_and_what_it_wrote_is_gone(
    transactional: MakeProducer, committed_reader: Callable[..., Consumer], topic: str
) -> None:
    zombie = transactional()
    zombie.begin_transaction()
    send(zombie, topic, "never")
    current = transactional()
    current.begin_transaction()
    send(current, topic, "ever")
    zombie.produce(topic, b"never again")
    with pytest.raises(KafkaException) as fenced:
        zombie.commit_transaction(PATIENCE_SECONDS)
    assert fenced.value.args[0].code() == KafkaError._FENCED
    current.commit_transaction(PATIENCE_SECONDS)
    assert values(committed_reader(TopicPartition(topic, 0, 0))) == ["ever"]


def test_a_timeout_over_the_limit_is_refused(bootstrap: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "slow", "transaction.timeout.ms": 900_001})
    with pytest.raises(KafkaException) as refused:
        producer.init_transactions(PATIENCE_SECONDS)
    assert refused.value.args[0].code() == KafkaError.INVALID_TRANSACTION_TIMEOUT


def test_a_transaction_past_its_timeout_is_aborted(start_broker: BrokerFactory) -> None:
    broker = start_broker({"transaction.abort.timed.out.transaction.cleanup.interval.ms": 50})
    config = {"bootstrap.servers": broker.bootstrap_servers}
    abandoned = Producer(config | {"transactional.id": "abandoned", "transaction.timeout.ms": 1_000})
    abandoned.init_transactions(PATIENCE_SECONDS)
    abandoned.begin_transaction()
    send(abandoned, "tea", "never")
    send(Producer(config), "tea", "ever")
    settings = {"group.id": "unused", "isolation.level": "read_committed", "enable.partition.eof": True}
    with closing(Consumer(config | settings)) as reader:
        reader.assign([TopicPartition("tea", 0, 0)])
        record = None
        while record is None or record.error() is not None:
            record = reader.poll(PATIENCE_SECONDS)
        assert record.value() == b"ever"
    with pytest.raises(KafkaException) as fenced:
        abandoned.commit_transaction(PATIENCE_SECONDS)
    assert fenced.value.args[0].code() == KafkaError._FENCED


def test_an_id_that_nobody_uses_is_forgotten_and_begins_anew(start_broker: BrokerFactory) -> None:
    broker = start_broker(
        {
            "transactional.id.expiration.ms": 200,
            "transaction.remove.expired.transaction.cleanup.interval.ms": 50,
        }
    )

    def is_known() -> bool | None:
        """None while transactions load."""
        request = DescribeTransactionsRequest(transactional_ids=["tea"])
        with WireClient(broker.bootstrap_servers) as client:
            (found,) = client.call(request, DescribeTransactionsResponse, 0).transaction_states
        if found.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return None
        assert found.error_code in {ErrorCode.NONE, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND}
        return found.error_code == ErrorCode.NONE

    def commit_one() -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "tea"})
        producer.init_transactions(PATIENCE_SECONDS)
        producer.begin_transaction()
        send(producer, "leaves", "some")
        assert is_known()
        producer.commit_transaction(PATIENCE_SECONDS)

    commit_one()
    wait_until(lambda: is_known() is False, "the id is forgotten")
    broker.kill()
    broker.start()
    wait_until(lambda: is_known() is not None, "transactions are loaded")
    assert not is_known()
    commit_one()


def test_consume_transform_produce_counts_everything_once_however_often_it_dies(
    bootstrap: str, transactional: MakeProducer, committed_reader: Callable[..., Consumer], new_topic: NewTopic
) -> None:
    source, target = new_topic(), new_topic()
    group = f"group-{uuid.uuid4().hex[:8]}"
    send(Producer({"bootstrap.servers": bootstrap}), source, *map(str, range(100)))
    done = 0
    while done < 100:
        consumer = committed_reader(group=group)
        producer = transactional()  # What the last one left open is aborted; its offsets were pending until now.
        (position,) = consumer.committed([TopicPartition(source, 0)], PATIENCE_SECONDS)
        done = max(position.offset, 0)
        consumer.assign([TopicPartition(source, 0, done)])
        for batch in range(3):
            if done == 100:
                break
            texts = up_to(7, consumer)
            producer.begin_transaction()
            for text in texts:
                producer.produce(target, f"{text}!".encode())
            (position,) = consumer.position([TopicPartition(source, 0)])
            producer.send_offsets_to_transaction([position], consumer.consumer_group_metadata(), PATIENCE_SECONDS)
            if batch == 2:
                producer.flush(PATIENCE_SECONDS)
                break  # It dies here, with all of it sent and nothing committed.
            producer.commit_transaction(PATIENCE_SECONDS)
            done = position.offset
    transactional()  # What the last one left open is aborted.
    assert values(committed_reader(TopicPartition(target, 0, 0))) == [f"{number}!" for number in range(100)]


def test_an_open_transaction_survives_kill_9(start_broker: BrokerFactory) -> None:
    broker = start_broker()
    config = {"bootstrap.servers": broker.bootstrap_servers}
    reader_config = config | {"group.id": "tea", "isolation.level": "read_committed", "enable.partition.eof": True}
    for number in range(2):
        # A new one each time: librdkafka waits forever for a group coordinator that it has known before the restart.
        producer = Producer(config | {"transactional.id": "tea", "linger.ms": 0})
        producer.init_transactions(PATIENCE_SECONDS)
        with closing(Consumer(reader_config)) as consumer:
            consumer.assign([TopicPartition("leaves", 0, 0)])
            producer.begin_transaction()
            send(producer, "leaves", f"{number} before")
            broker.kill()
            broker.start()
            send(producer, "leaves", f"{number} between")
            offsets = [TopicPartition("leaves", 0, number)]
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), PATIENCE_SECONDS)
            broker.kill()
            broker.start()
            producer.commit_transaction(PATIENCE_SECONDS)
            broker.kill()
            broker.start()
            (position,) = consumer.committed(offsets, PATIENCE_SECONDS)
            assert position.offset == number
    with closing(Consumer(reader_config)) as consumer:
        consumer.assign([TopicPartition("leaves", 0, 0)])
        assert values(consumer) == [f"{number} {when}" for number in range(2) for when in ("before", "between")]
