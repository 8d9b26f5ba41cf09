"""Both failure scenarios of KIP-101 on running brokers: a leader and a follower die, and only the follower returns.

The follower's high watermark is behind what is committed, as it always is by a round. A broker that cut its log there
would lose what was acknowledged (the first scenario), or go on with a log that differs from its leader's (the second).
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import NewTopic

from highwater.testing.cluster import ClusterProcesses
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

Look: TypeAlias = Callable[[ClusterProcesses], Any]
LEADER, FOLLOWER = 1, 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterProcesses]:
    with ClusterProcesses(2, {"min.insync.replicas": 1, "zookeeper.session.timeout.ms": 3000}) as running:
        yield running


def begin(cluster: ClusterProcesses, view: Any, topic: str, *values: bytes) -> None:
    """Make a topic that the leader leads, and write: everything is on both, and committed."""
    placed = NewTopic(topic, num_partitions=1, replica_assignment=[[LEADER, FOLLOWER]])
    view.admin().create_topics([placed])[topic].result(PATIENCE_SECONDS)
    write(cluster, topic, *values)


def write(cluster: ClusterProcesses, topic: str, *values: bytes) -> None:
    """Write each value as a batch of its own, with acks=all."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 0, "log_level": 0})
    for value in values:
        producer.produce(topic, value)
        assert producer.flush(PATIENCE_SECONDS) == 0


def only_the_follower_returns(cluster: ClusterProcesses, view: Any, topic: str) -> None:
    """Start the follower while its leader still counts as alive: it must not wait for one that is gone."""
    cluster.brokers[FOLLOWER].start()
    wait_until(lambda: view.leaders(topic, cluster.brokers[FOLLOWER])[0] == FOLLOWER, "the follower leads")


def the_leader_returns(cluster: ClusterProcesses, view: Any, topic: str) -> None:
    cluster.brokers[LEADER].start()
    wait_until(lambda: len(view.topic(topic).partitions[0].isrs) == 2, "both are in sync")
    wait_until(lambda: log_of(cluster, LEADER, topic) == log_of(cluster, FOLLOWER, topic), "both logs are the same")


def segment_of(cluster: ClusterProcesses, number: int, topic: str) -> Path:
    return cluster.brokers[number].data_dir / f"{topic}-0" / "00000000000000000000.log"


def log_of(cluster: ClusterProcesses, number: int, topic: str) -> bytes:
    return segment_of(cluster, number, topic).read_bytes()


def read(cluster: ClusterProcesses, topic: str) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "check", "log_level": 0})
    _, end = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_SECONDS)
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while len(found) < end:
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None
        value = message.value()
        assert value is not None
        found.append(value)
    consumer.close()
    return found


def watermark_on_disk(cluster: ClusterProcesses, number: int, topic: str) -> int:
    """Return the high watermark that a broker would find when it starts; 0 if it has written none down."""
    checkpoint = cluster.brokers[number].data_dir / "replication-offset-checkpoint"
    lines = checkpoint.read_text().splitlines()[2:] if checkpoint.exists() else []
    return next((int(line.split()[2]) for line in lines if line.startswith(f"{topic} 0 ")), 0)


def test_nothing_committed_is_lost_when_a_follower_restarts_and_then_its_leader_dies(
    cluster: ClusterProcesses, look: Look
) -> None:
    view = look(cluster)
    begin(cluster, view, "first", b"m1", b"m2")
    for broker in cluster.brokers.values():
        broker.kill()
    assert watermark_on_disk(cluster, FOLLOWER, "first") < 2
    only_the_follower_returns(cluster, view, "first")
    assert read(cluster, "first") == [b"m1", b"m2"]
    the_leader_returns(cluster, view, "first")
    assert read(cluster, "first") == [b"m1", b"m2"]


def test_a_divergent_tail_is_cut_when_both_lost_power(cluster: ClusterProcesses, look: Look) -> None:
    """The follower's last write did not reach its disk; it takes another one instead while the leader is away."""
    view = look(cluster)
    begin(cluster, view, "second", b"m1")
    shared = len(log_of(cluster, FOLLOWER, "second"))
    write(cluster, "second", b"m2")
    for broker in cluster.brokers.values():
        broker.kill()
    with segment_of(cluster, FOLLOWER, "second").open("r+b") as log:
        log.truncate(shared)
    only_the_follower_returns(cluster, view, "second")
    write(cluster, "second", b"m3")
    assert log_of(cluster, LEADER, "second") != log_of(cluster, FOLLOWER, "second"), "the logs have parted"
    the_leader_returns(cluster, view, "second")
    assert read(cluster, "second") == [b"m1", b"m3"]
