"""Brokers die, stall and move their data while a client writes: everything acknowledged is there, once, in order."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from highwater.testing.cluster import ClusterProcesses
from highwater.testing.waiting import wait_until

TOPIC = "ledger"
PARTITIONS = 3
MIN_ACKED_BETWEEN_FAULTS = 200
SESSION_MS = 4000
MAX_LAG_MS = 3000
WRITTEN_IN_VAIN = 900
Look: TypeAlias = Callable[[ClusterProcesses], Any]


class Writer:
    """Writes numbers with acks=all as long as it is let, and remembers which were acknowledged."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self.acked: dict[int, list[int]] = {index: [] for index in range(PARTITIONS)}
        self.failed: list[str] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(0.001):
            self._producer.produce(TOPIC, b"%d" % number, partition=number % PARTITIONS, on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            index, value = message.partition(), message.value()
            assert index is not None
            assert value is not None
            self.acked[index].append(int(value))

    @property
    def total(self) -> int:
        return sum(map(len, self.acked.values()))

    def go_on(self) -> None:
        """Wait until more is acknowledged: the cluster takes writes."""
        enough = self.total + MIN_ACKED_BETWEEN_FAULTS
        wait_until(lambda: self.total >= enough, "more writes are acknowledged", timeout_seconds=60)

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(60)


@contextmanager
def writing(cluster: ClusterProcesses, view: Any) -> Iterator[tuple[Any, Writer]]:
    """Write as long as the block lasts; then everything that was acknowledged must be there."""
    view.create(TOPIC, PARTITIONS, 3)
    writer = Writer(cluster.bootstrap_servers)
    try:
        writer.go_on()
        yield view, writer
        writer.go_on()
    finally:
        writer.stop()
    assert writer.failed == []
    assert read_all(cluster) == writer.acked


@pytest.fixture
def written(highwater_cluster_factory: Callable[..., ClusterProcesses], look: Look) -> Iterator[Any]:
    cluster = highwater_cluster_factory(3, min_insync_replicas=2, zookeeper_session_timeout_ms=SESSION_MS)
    with writing(cluster, look(cluster)) as (view, writer):
        yield cluster, view, writer


def read_all(cluster: ClusterProcesses) -> dict[int, list[int]]:
    """Return every record of every partition, in the order of its offsets."""
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "reader", "log_level": 0})
    found: dict[int, list[int]] = {}
    for index in range(PARTITIONS):
        _, end = consumer.get_watermark_offsets(TopicPartition(TOPIC, index), timeout=30)
        consumer.assign([TopicPartition(TOPIC, index, 0)])
        found[index] = []
        while len(found[index]) < end:
            message = consumer.poll(30)
            assert message is not None, f"partition {index} ends early"
            value = message.value()
            assert value is not None
            found[index].append(int(value))
    consumer.close()
    return found


def all_in_sync(view: Any, topic: str = TOPIC) -> bool:
    return all(len(partition.isrs) == 3 for partition in view.topic(topic).partitions.values())


def test_the_controller_and_then_a_leader_are_killed(written: Any) -> None:
    cluster, view, writer = written
    for pick in (view.controller, lambda: view.leaders(TOPIC)[0]):
        victim = pick()
        cluster.brokers[victim].kill()
        wait_until(lambda: -1 not in view.leaders(TOPIC).values(), "every partition is led")
        writer.go_on()
        cluster.brokers[victim].start()
        wait_until(lambda: all_in_sync(view), "the broker has caught up", timeout_seconds=60)


def test_a_leader_that_was_paused_past_its_session_follows_when_it_returns(written: Any) -> None:
    cluster, view, writer = written
    victim = view.leaders(TOPIC)[0]
    cluster.brokers[victim].pause()
    watcher = next(broker for number, broker in cluster.brokers.items() if number != victim)
    wait_until(lambda: victim not in view.leaders(TOPIC, watcher).values(), "others lead", timeout_seconds=60)
    writer.go_on()
    cluster.brokers[victim].resume()
    wait_until(lambda: len(view.live(watcher)) == 3, "it is registered again", timeout_seconds=60)
    wait_until(lambda: all_in_sync(view), "it has caught up", timeout_seconds=60)


def test_zookeeper_restarts_and_nobody_notices(written: Any) -> None:
    cluster, view, writer = written
    cluster.zookeeper.kill()
    writer.go_on()
    cluster.zookeeper.start()
    writer.go_on()
    view.create("made-afterwards", 1, 3)


def test_brokers_answer_stop_and_come_back_while_zookeeper_stays_away(
    highwater_cluster_factory: Callable[..., ClusterProcesses], look: Look
) -> None:
    """A broker dies, so that the others have more to write down than may wait: none of them stands still for it."""
    cluster = highwater_cluster_factory(
        3, min_insync_replicas=2, replica_lag_time_max_ms=MAX_LAG_MS, zookeeper_session_timeout_ms=SESSION_MS
    )
    with writing(cluster, look(cluster)) as (view, writer):
        view.create("wide", WRITTEN_IN_VAIN, 3)
        wait_until(lambda: all_in_sync(view, "wide"), "all of it is there", timeout_seconds=60)
        cluster.zookeeper.kill()
        writer.go_on()
        cluster.brokers[1].kill()
        for _ in range(3):
            time.sleep(MAX_LAG_MS / 1000)
            assert {frozenset(view.live(broker)) for broker in cluster.running} == {frozenset(cluster.brokers)}
        assert cluster.brokers[2].stop() == 0
        cluster.zookeeper.start()
        cluster.brokers[1].start()
        cluster.brokers[2].start()
        wait_until(lambda: all_in_sync(view) and all_in_sync(view, "wide"), "all have caught up", timeout_seconds=60)


def test_brokers_need_no_zookeeper_to_stop(
    highwater_cluster_factory: Callable[..., ClusterProcesses], look: Look
) -> None:
    """Nor do they wait for as long as a session lives, again and again, for one that does not answer."""
    cluster = highwater_cluster_factory(2)
    view = look(cluster)
    view.create(TOPIC, PARTITIONS, 2)
    controller = view.controller()
    cluster.zookeeper.kill()
    for number in sorted(cluster.brokers, key=lambda number: number == controller):
        assert cluster.brokers[number].stop() == 0


def test_a_broker_is_stopped_cleanly_and_the_preferred_leaders_lead_again_when_it_is_back(written: Any) -> None:
    from highwater.cli.cluster import Cluster
    from highwater.cli.elect_leaders import elect_leaders

    cluster, view, writer = written
    before = view.leaders(TOPIC)
    for number, broker in cluster.brokers.items():
        assert broker.stop() == 0
        writer.go_on()
        broker.start()
        wait_until(lambda: all_in_sync(view), f"broker {number} has caught up", timeout_seconds=60)
    elect_leaders(TOPIC, cluster=Cluster(cluster.bootstrap_servers))
    wait_until(lambda: view.leaders(TOPIC) == before, "the preferred leaders lead")
