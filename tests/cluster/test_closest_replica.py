"""Consumers read from the replica in their own rack (KIP-392), real ones from real brokers."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.testing.cluster import ClusterProcesses
from highwater.testing.java import JavaClients
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

TOPIC = "orders"
LEADER, FOLLOWER = 1, 3


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterProcesses]:
    selector = {"replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector"}
    racks = {number: {"broker.rack": f"rack-{number}"} for number in (1, 2, 3)}
    with ClusterProcesses(3, selector, own_settings=racks) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        topic = NewTopic(TOPIC, num_partitions=1, replica_assignment=[[LEADER, 2, FOLLOWER]])
        admin.create_topics([topic])[TOPIC].result(PATIENCE_SECONDS)
        yield running


class Reader:
    """A consumer that says whom it reads from."""

    def __init__(self, cluster: ClusterProcesses, rack: str) -> None:
        self.values: list[bytes] = []
        self.broker = -1
        self._consumer = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": "nobody",
                "client.rack": rack,
                "statistics.interval.ms": 50,
                "stats_cb": self._statistics,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])

    def _statistics(self, text: str) -> None:
        partition = json.loads(text)["topics"].get(TOPIC, {}).get("partitions", {}).get("0", {})
        self.broker = partition.get("broker", -1)

    def has(self, count: int, *, from_broker: int) -> bool:
        message = self._consumer.poll(0.05)
        if message is not None and message.error() is None:
            value = message.value()
            assert value is not None
            self.values.append(value)
        return len(self.values) == count and self.broker == from_broker

    def close(self) -> None:
        self._consumer.close()


def write(cluster: ClusterProcesses, first: int, count: int) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for number in range(first, first + count):
        producer.produce(TOPIC, b"%d" % number)
    assert producer.flush(PATIENCE_SECONDS) == 0


def test_a_java_consumer_reads_from_its_own_rack(cluster: ClusterProcesses, java_clients: JavaClients) -> None:
    """What its connections to both brokers received says where the records came from."""
    topic, record_bytes, count = "near", 10_000, 100
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    placed = NewTopic(topic, num_partitions=1, replica_assignment=[[LEADER, 2, FOLLOWER]])
    admin.create_topics([placed])[topic].result(PATIENCE_SECONDS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for _ in range(count):
        producer.produce(topic, bytes(record_bytes))
    assert producer.flush(PATIENCE_SECONDS) == 0
    settings = {
        "bootstrap_servers": cluster.brokers[LEADER].bootstrap_servers,
        "client_rack": f"rack-{FOLLOWER}",
        "auto_offset_reset": "earliest",
        "max_partition_fetch_bytes": record_bytes,  # many fetches: only the first goes to the leader
        "key_deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
        "value_deserializer": "org.apache.kafka.common.serialization.ByteArrayDeserializer",
    }
    consumer = java_clients.kafka.clients.consumer.KafkaConsumer(java_clients.properties(settings))
    try:
        consumer.assign(java_clients.list_of([java_clients.kafka.common.TopicPartition(topic, 0)]))
        poll = java_clients.jvm.java.time.Duration.ofMillis(200)
        read = 0

        def has_read_everything() -> bool:
            nonlocal read
            read += int(consumer.poll(poll).count())
            return read == count

        wait_until(has_read_everything, "all records are read")
        received = received_from(java_clients, consumer)
    finally:
        consumer.close()
    assert received[FOLLOWER] > count * record_bytes * 0.9
    assert received[LEADER] < count * record_bytes * 0.1


def received_from(java_clients: JavaClients, consumer: Any) -> dict[int, float]:
    """Return how many bytes a Java client has received from each broker."""
    received = {}
    for entry in java_clients.each(consumer.metrics().entrySet()):
        name = entry.getKey()
        if name.group() == "consumer-node-metrics" and name.name() == "incoming-byte-total":
            number = int(name.tags().get("node-id").removeprefix("node-"))
            received[number] = float(entry.getValue().metricValue())
    return received


def test_a_consumer_reads_from_its_own_rack_and_goes_on_when_that_replica_dies(cluster: ClusterProcesses) -> None:
    write(cluster, 0, 50)
    near, far = Reader(cluster, f"rack-{FOLLOWER}"), Reader(cluster, "another rack")
    wait_until(lambda: near.has(50, from_broker=FOLLOWER), "everything is read from the follower")
    wait_until(lambda: far.has(50, from_broker=LEADER), "who has no replica near reads from the leader")
    write(cluster, 50, 50)
    wait_until(lambda: near.has(100, from_broker=FOLLOWER), "what is new comes from the follower")
    cluster.brokers[FOLLOWER].kill()
    write(cluster, 100, 50)
    wait_until(lambda: near.has(150, from_broker=LEADER), "the leader takes over")
    near.close()
    far.close()
    assert near.values == [b"%d" % number for number in range(150)]


def test_members_get_the_partitions_of_their_own_rack(cluster: ClusterProcesses) -> None:
    """The server's assignor gives a member what is stored near it, as long as everybody gets a fair share (KIP-848)."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    spread = NewTopic("spread", num_partitions=6, replica_assignment=[[1], [2], [1], [2], [1], [2]])
    admin.create_topics([spread])["spread"].result(PATIENCE_SECONDS)
    with ExitStack() as stack:
        members = [
            Consumer(
                {
                    "bootstrap.servers": cluster.bootstrap_servers,
                    "group.id": "near",
                    "group.protocol": "consumer",
                    "client.rack": f"rack-{number}",
                    "log_level": 0,
                }
            )
            for number in (2, 1)
        ]
        for member in members:
            stack.callback(member.close)
            member.subscribe(["spread"])

        def have_what_is_near() -> bool:
            for member in members:
                member.poll(0.05)
            return [sorted(place.partition for place in member.assignment()) for member in members] == [
                [1, 3, 5],
                [0, 2, 4],
            ]

        wait_until(have_what_is_near, "each has the partitions of its own rack")
