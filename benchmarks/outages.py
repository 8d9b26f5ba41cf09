"""Lines of three brokers of which one dies or stops, and of a thousand partitions that somebody else must lead then."""

import contextlib
import itertools
import threading
import time
from collections.abc import Iterator, Mapping
from struct import Struct
from typing import Final

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import NewTopic

from benchmarks.clusters import IDS, Cluster, leader_of
from benchmarks.measuring import ClusterArena, Line, Metric, Target
from benchmarks.replicated import TIMEOUT_SECONDS, create, delete, is_led, replicated_topic
from highwater.testing.waiting import wait_until

MANY_PARTITIONS: Final = 1_000
SETTLE_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 10.0
AFTER_SECONDS: Final = 2.0
"""How long writes go on after a broker has stopped, so that a late failure is seen."""

_SENT: Final = Struct(">d")


class OutageFailed(Exception):
    """No write was acknowledged any more."""


class SteadyWriter:
    """librdkafka with every default (acks=all): sends a record every millisecond, and knows when it was answered."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
        self._topic = topic
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self.failures = 0
        self.answers: list[tuple[float, float]] = []
        """When each acknowledged record was sent, and when its acknowledgement came."""
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.wait(0.001):
            sent = time.perf_counter()
            self._producer.produce(self._topic, _SENT.pack(sent), partition=0, on_delivery=self._delivered)
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        now = time.perf_counter()
        with self._changed:
            if error is not None:
                self.failures += 1
            elif (value := message.value()) is not None:
                (sent,) = _SENT.unpack(value)
                self.answers.append((sent, now))
            self._changed.notify_all()

    def first_after(self, moment: float) -> float:
        """Return when the first record that was sent after `moment` was acknowledged."""

        def acknowledged() -> float | None:
            return next((answered for sent, answered in reversed(self.answers) if sent > moment), None)

        with self._changed:
            if not self._changed.wait_for(lambda: acknowledged() is not None, TIMEOUT_SECONDS):
                raise OutageFailed("no write was acknowledged any more")
            return min(answered for sent, answered in self.answers if sent > moment)

    def longest_gap(self) -> float:
        """Return the longest time in which nothing was acknowledged."""
        moments = [answered for _, answered in self.answers]
        return max(later - earlier for earlier, later in itertools.pairwise(moments))

    def stop(self) -> None:
        """Send no more, and wait for what was sent."""
        self._stop.set()
        self._thread.join()
        self._producer.flush(TIMEOUT_SECONDS)


def killed_leader(arena: ClusterArena) -> list[Metric]:
    """kill -9 of a leader to the first acknowledged write of a client that was writing."""
    metrics = [Metric("seconds", "s", Target(ours_at_most=1.0))]

    def measure(cluster: Cluster) -> Mapping[str, float]:
        with replicated_topic(cluster, 1) as topic, cluster.whole_again():
            writer = SteadyWriter(cluster, topic)
            try:
                writer.first_after(time.perf_counter())
                victim = leader_of(cluster.admin().list_topics(topic, timeout=TIMEOUT_SECONDS), topic)
                killed = time.perf_counter()
                cluster.brokers[victim].kill()
                seconds = writer.first_after(killed) - killed
            finally:
                writer.stop()
        return {"seconds": seconds}

    return arena.alternate(metrics, measure, warm_ups=0)


def stopped_leader(arena: ClusterArena) -> list[Metric]:
    """A leader is stopped as an operator does it, while a client writes."""
    metrics = [Metric("failed writes", "", Target(ours_at_most=0)), Metric("longest gap", "ms", Target())]

    def measure(cluster: Cluster) -> Mapping[str, float]:
        with replicated_topic(cluster, 1) as topic, cluster.whole_again():
            writer = SteadyWriter(cluster, topic)
            try:
                writer.first_after(time.perf_counter())
                cluster.brokers[leader_of(cluster.admin().list_topics(topic, timeout=TIMEOUT_SECONDS), topic)].stop()
                time.sleep(AFTER_SECONDS)
                writer.first_after(time.perf_counter())
            finally:
                writer.stop()
        return {"failed writes": writer.failures, "longest gap": writer.longest_gap() * 1e3}

    return arena.alternate(metrics, measure, warm_ups=0)


def many_partitions(arena: ClusterArena) -> list[Metric]:
    """A topic of 1,000 partitions and three replicas is made, lies idle, and loses the broker that leads all of it."""
    metrics = [
        Metric("created", "s", Target(at_most=1.0)),
        Metric("idle CPU", "% of a core", Target(ours_at_most=5.0)),
        Metric("leaders moved", "s", Target(at_most=1.0)),
        Metric("first write", "s", Target(ours_at_most=1.0)),
    ]

    def measure(cluster: Cluster) -> Mapping[str, float]:
        count = arena.effort.scaled(MANY_PARTITIONS)
        with replicated_topic(cluster, 1) as written:
            victim = leader_of(cluster.admin().list_topics(written, timeout=TIMEOUT_SECONDS), written)
            started = time.perf_counter()
            with topic_led_by(cluster, victim, count) as many:
                created = time.perf_counter() - started
                idle = idle_percent(cluster)
                with cluster.whole_again():
                    moved, first_write = outage(cluster, written, many, victim)
        return {"created": created, "idle CPU": idle, "leaders moved": moved, "first write": first_write}

    return arena.alternate(metrics, measure, warm_ups=0)


@contextlib.contextmanager
def topic_led_by(cluster: Cluster, leader: int, partitions: int) -> Iterator[str]:
    """Make a topic of three replicas all of which is led by one broker, and delete it in the end."""
    others = [number for number in IDS if number != leader]
    placed = [[leader, *others[:: 1 if index % 2 else -1]] for index in range(partitions)]
    create(cluster, NewTopic("many", partitions, replica_assignment=placed, config={"file.delete.delay.ms": "0"}))
    try:
        yield "many"
    finally:
        delete(cluster, "many")


def idle_percent(cluster: Cluster) -> float:
    """Return how much of one core the three use while nobody asks them for anything."""
    time.sleep(SETTLE_SECONDS)
    before, started = cluster.cpu_seconds(), time.perf_counter()
    time.sleep(IDLE_SECONDS)
    return (cluster.cpu_seconds() - before) / (time.perf_counter() - started) * 100


def outage(cluster: Cluster, written: str, many: str, victim: int) -> tuple[float, float]:
    """Kill a broker; return when all of `many` was led by others, and when a write to `written` was acknowledged."""
    writer = SteadyWriter(cluster, written)
    try:
        writer.first_after(time.perf_counter())
        killed = time.perf_counter()
        cluster.brokers[victim].kill()
        wait_until(
            lambda: is_led(cluster, many, without=victim), f"others lead {many}", timeout_seconds=TIMEOUT_SECONDS
        )
        seconds = time.perf_counter() - killed
        return seconds, writer.first_after(killed) - killed
    finally:
        writer.stop()


LINES: Final = (
    Line("rf3-kill", "three brokers: kill -9 of a leader to the next acknowledged write", killed_leader),
    Line("rf3-stop", "three brokers: clean stop of a leader under load", stopped_leader),
    Line("rf3-partitions", "three brokers: 1,000 partitions, and their leader dies", many_partitions),
)
