"""Replication on real processes: leaders are killed while producers write, and nothing acknowledged is lost."""

import subprocess
import sys
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Self, TypeAlias

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from highwater.testing.cluster import ClusterProcesses
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

Look: TypeAlias = Callable[[ClusterProcesses], Any]


class Load:
    """Writes with acks=all until it is stopped, and keeps what was acknowledged."""

    def __init__(self, cluster: ClusterProcesses, topic: str, partitions: int) -> None:
        self._producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "enable.idempotence": True, "linger.ms": 1}
        )
        self._topic, self._partitions = topic, partitions
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self.failed: list[KafkaError] = []

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        number = 0
        while not self._stopped.is_set():
            self._producer.produce(
                self._topic, b"%d" % number, partition=number % self._partitions, on_delivery=self._delivered
            )
            number += 1
            self._producer.poll(0.001)
        assert self._producer.flush(PATIENCE_SECONDS) == 0

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
            return
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        assert value is not None
        self.acknowledged[partition, offset] = value

    def wait_for_more(self, count: int) -> None:
        """Return when `count` more records were acknowledged."""
        wanted = len(self.acknowledged) + count
        wait_until(lambda: len(self.acknowledged) >= wanted, f"{count} more acknowledged records")


def wait_for_all_in_sync(view: Any, topic: str, count: int = 3) -> None:
    wait_until(
        lambda: all(len(partition.isrs) == count for partition in view.topic(topic).partitions.values()),
        "all replicas are in sync",
    )


def read_all(cluster: ClusterProcesses, topic: str, partition: int, count: int) -> dict[tuple[int, int], bytes]:
    """Read from the beginning until `count` records have come."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "check", "auto.offset.reset": "earliest"}
    )
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: dict[tuple[int, int], bytes] = {}
    try:
        while len(found) < count:
            for message in consumer.consume(min(1000, count - len(found)), PATIENCE_SECONDS):
                assert message.error() is None, message.error()
                offset, value = message.offset(), message.value()
                assert offset is not None
                assert value is not None
                found[partition, offset] = value
    finally:
        consumer.close()
    return found


def check_nothing_is_lost(cluster: ClusterProcesses, view: Any, load: Load, topic: str, partitions: int) -> None:
    """All that was acknowledged is there, once, where it was acknowledged; all replicas are the same, byte for byte."""
    assert not load.failed
    wait_for_all_in_sync(view, topic)
    values = list(load.acknowledged.values())
    assert len(set(values)) == len(values), "an idempotent producer writes everything once"
    for partition in range(partitions):
        acknowledged = {key: value for key, value in load.acknowledged.items() if key[0] == partition}
        assert read_all(cluster, topic, partition, len(acknowledged)) == acknowledged
        wait_until(partial(replicas_are_equal, cluster, topic, partition), "equal replicas")


def replicas_are_equal(cluster: ClusterProcesses, topic: str, partition: int) -> bool:
    contents = [
        [(file.name, file.read_bytes()) for file in sorted(broker.data_dir.glob(f"{topic}-{partition}/*.log"))]
        for broker in cluster.brokers.values()
    ]
    epochs = [
        (broker.data_dir / f"{topic}-{partition}" / "leader-epoch-checkpoint").read_text().splitlines()[2:]
        for broker in cluster.brokers.values()
    ]
    written = [[line for line in lines if int(line.split()[1]) < _end(contents[0])] for lines in epochs]
    return all(one == contents[0] for one in contents) and all(one == written[0] for one in written)


def _end(files: list[tuple[str, bytes]]) -> int:
    """The offset behind the last record of a log, from its last batch."""
    content = files[-1][1]
    position = end = 0
    while position < len(content):
        end = int.from_bytes(content[position : position + 8], "big")
        end += int.from_bytes(content[position + 23 : position + 27], "big") + 1
        position += 12 + int.from_bytes(content[position + 8 : position + 12], "big")
    return end


def test_a_leader_killed_under_load_loses_nothing(highwater_cluster: ClusterProcesses, look: Look) -> None:
    cluster, view = highwater_cluster, look(highwater_cluster)
    view.create("orders", 3, 3, min_insync_replicas="2")
    with Load(cluster, "orders", 3) as load:
        load.wait_for_more(300)
        for partition in range(2):
            leader = view.leaders("orders")[partition]
            cluster.brokers[leader].kill()
            load.wait_for_more(300)
            cluster.brokers[leader].start()
            wait_for_all_in_sync(view, "orders")
        load.wait_for_more(300)
    check_nothing_is_lost(cluster, view, load, "orders", 3)


def test_all_brokers_killed_at_once_lose_nothing(highwater_cluster: ClusterProcesses, look: Look) -> None:
    cluster, view = highwater_cluster, look(highwater_cluster)
    view.create("orders", 3, 3, min_insync_replicas="2")
    with Load(cluster, "orders", 3) as load:
        load.wait_for_more(300)
        for broker in cluster.brokers.values():
            broker.kill()
        for broker in cluster.brokers.values():
            broker.start()
        load.wait_for_more(300)
    check_nothing_is_lost(cluster, view, load, "orders", 3)


def test_a_broker_stopped_and_started_loses_nothing_and_catches_up(
    highwater_cluster: ClusterProcesses, look: Look
) -> None:
    cluster, view = highwater_cluster, look(highwater_cluster)
    view.create("orders", 3, 3, min_insync_replicas="2")
    with Load(cluster, "orders", 3) as load:
        load.wait_for_more(300)
        for number in (1, 2):
            assert cluster.brokers[number].stop() == 0
            load.wait_for_more(300)
            cluster.brokers[number].start()
            wait_for_all_in_sync(view, "orders")
    check_nothing_is_lost(cluster, view, load, "orders", 3)


def test_the_files_of_every_replica_pass_verification(highwater_cluster: ClusterProcesses, look: Look) -> None:
    cluster, view = highwater_cluster, look(highwater_cluster)
    view.create("orders", 1, 3)
    with Load(cluster, "orders", 1) as load:
        load.wait_for_more(200)
        follower = next(number for number in cluster.brokers if number != view.leaders("orders")[0])
        cluster.brokers[follower].kill()
        load.wait_for_more(200)
        cluster.brokers[follower].start()
        wait_for_all_in_sync(view, "orders")
    for broker in cluster.brokers.values():
        segment = next((broker.data_dir / "orders-0").glob("*.log"))
        dumped = subprocess.run(
            [sys.executable, "-m", "highwater", "dump", str(segment)], capture_output=True, text=True, check=False
        )
        assert dumped.returncode == 0, dumped.stderr
