"""Real clients against a running broker, unchanged.

The whole suite runs against one broker that it starts. `HIGHWATER_TEST_BOOTSTRAP=host:port` points it at another one
instead, such as Apache Kafka (`python -m benchmarks.apache_kafka` starts it): that is how we know that a test states
what Kafka does and not what we wish. Tests that need a broker of their own, to kill it or to fill its disk, are skipped
then.
"""

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from highwater.testing.broker import BrokerProcess
from highwater.testing.plugin import BrokerFactory
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until
from highwater.testing.wire import WireClient

ORACLE = os.environ.get("HIGHWATER_TEST_BOOTSTRAP")

NewTopicFixture = Callable[..., str]
ReadFixture = Callable[..., list[Message]]


@pytest.fixture(scope="session")
def bootstrap(request: pytest.FixtureRequest) -> str:
    """The address of the broker under test."""
    if ORACLE is not None:
        return ORACLE
    broker: BrokerProcess = request.getfixturevalue("highwater_session_broker")
    return broker.bootstrap_servers


@pytest.fixture
def start_broker(highwater_broker_factory: BrokerFactory) -> BrokerFactory:
    """Start a broker for this test alone, which may do to it what it likes."""
    if ORACLE is not None:
        pytest.skip("needs a broker of its own")
    return highwater_broker_factory


@pytest.fixture(scope="session")
def admin(bootstrap: str) -> AdminClient:
    """An admin client of the shared broker; it outlives that broker, and keeps quiet about it."""
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})


@pytest.fixture
def topic_name(request: pytest.FixtureRequest) -> str:
    """A name no other test uses, which says who did."""
    return f"{request.node.originalname[:80]}-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def new_topic(bootstrap: str, admin: AdminClient, topic_name: str) -> NewTopicFixture:
    """Make a topic of the shared broker and return its name; called again in one test, it makes another."""
    made = 0

    def make(partitions: int = 1, config: Mapping[str, str] | None = None) -> str:
        nonlocal made
        made += 1
        name = f"{topic_name}-{made}"
        asked = NewTopic(name, num_partitions=partitions, replication_factor=1, config=dict(config or {}))
        admin.create_topics([asked])[name].result(PATIENCE_SECONDS)
        wait_until(lambda: every_partition_leads(bootstrap, name, partitions), f"a leader for all of {name}")
        return name

    return make


def every_partition_leads(bootstrap: str, topic: str, partitions: int) -> bool:
    """Whether all of a topic can be used: Apache Kafka answers CreateTopics a little before that."""
    asked = [ListOffsetsPartition(partition_index=number, timestamp=-1) for number in range(partitions)]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])
    with WireClient(bootstrap) as client:
        answer = client.call(request, ListOffsetsResponse, 5)
    return all(found.error_code == ErrorCode.NONE for found in answer.topics[0].partitions)


@pytest.fixture
def topic(new_topic: NewTopicFixture) -> str:
    """A topic of one partition with every default."""
    return new_topic()


@pytest.fixture
def producer(bootstrap: str) -> Iterator[Producer]:
    """A librdkafka producer with every default but the linger, flushed at the end."""
    client = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
    yield client
    assert client.flush(PATIENCE_SECONDS) == 0


@pytest.fixture
def read(bootstrap: str) -> ReadFixture:
    """Read `count` records of one partition from `offset` on with librdkafka."""

    def read_partition(
        topic: str, count: int, *, partition: int = 0, offset: int = 0, config: Mapping[str, Any] | None = None
    ) -> list[Message]:
        settings = {"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False}
        consumer = Consumer(settings | dict(config or {}))
        try:
            consumer.assign([TopicPartition(topic, partition, offset)])
            return take(consumer, count)
        finally:
            consumer.close()

    return read_partition


@pytest.fixture
def take_records() -> Callable[[Consumer, int], list[Message]]:
    """Take exactly `count` records from a consumer that is set up already."""
    return take


def take(consumer: Consumer, count: int) -> list[Message]:
    """Poll until `count` records have come; an error event ends the test."""
    records: list[Message] = []
    while len(records) < count:
        arrived = consumer.consume(count - len(records), PATIENCE_SECONDS)
        assert arrived, f"only {len(records)} of {count} records came"
        for record in arrived:
            assert record.error() is None, record.error()
        records += arrived
    return records


@pytest.fixture
def wire(bootstrap: str) -> Iterator[WireClient]:
    """A connection on which a test sends its own bytes."""
    with WireClient(bootstrap) as client:
        yield client
