"""Lines of three brokers with load: every write is on three disks' page caches before it is acknowledged."""

import contextlib
import uuid
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from confluent_kafka.admin import NewTopic

from benchmarks.clusters import BROKERS, Cluster
from benchmarks.generator import Load, run_load
from benchmarks.latency import CONNECTIONS, Schedule, percentile, run_schedule
from benchmarks.measuring import ClusterArena, Effort, Line, Metric, Target
from benchmarks.raw_clients import (
    CPU_PER_MEGABYTE,
    LARGE_BATCH_BYTES,
    MEGABYTE,
    RATE,
    SMALL_BATCH_BYTES,
    figures,
)
from benchmarks.real_clients import RECORDS_PER_SECOND, producer_performance
from benchmarks.topics import is_usable
from highwater.testing.waiting import wait_until

TIMEOUT_SECONDS: Final = 120.0
PARTITIONS: Final = 6
IN_FLIGHT: Final = 5
ALL: Final = -1
CALM_RECORDS_PER_SECOND: Final = 1_000
WARM_UP_REQUESTS: Final = 40_000
"""Per size, over all connections: each of three JVMs compiles what it has seen run tens of thousands of times."""


@contextlib.contextmanager
def replicated_topic(cluster: Cluster, partitions: int) -> Iterator[str]:
    """Make a topic of three replicas, wait until all of it can be used, and delete it in the end."""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    create(cluster, NewTopic(name, partitions, BROKERS, config={"file.delete.delay.ms": "0"}))
    try:
        yield name
    finally:
        delete(cluster, name)


def create(cluster: Cluster, topic: NewTopic) -> None:
    """Make a topic and wait until all of it can be used."""
    admin = cluster.admin()  # must outlive its answer
    admin.create_topics([topic], request_timeout=TIMEOUT_SECONDS)[topic.topic].result(TIMEOUT_SECONDS)
    wait_until(lambda: is_led(cluster, topic.topic), topic.topic, timeout_seconds=TIMEOUT_SECONDS)


def delete(cluster: Cluster, topic: str) -> None:
    """Delete a topic."""
    admin = cluster.admin()  # must outlive its answer
    admin.delete_topics([topic], request_timeout=TIMEOUT_SECONDS)[topic].result(TIMEOUT_SECONDS)


def is_led(cluster: Cluster, topic: str, *, without: int | None = None) -> bool:
    """Whether every partition has a leader, among these brokers, that is at work on it."""
    found = cluster.admin(without=without).list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic]
    led: dict[int, list[int]] = defaultdict(list)
    for index, partition in found.partitions.items():
        led[partition.leader].append(index)
    return bool(led) and all(
        leader in cluster.brokers and leader != without and is_usable(cluster.brokers[leader], topic, indexes)
        for leader, indexes in led.items()
    )


def leaders(cluster: Cluster, topic: str) -> tuple[str, ...]:
    """Return the address of each partition's leader."""
    partitions = cluster.admin().list_topics(topic, timeout=TIMEOUT_SECONDS).topics[topic].partitions
    return tuple(cluster.brokers[partitions[index].leader].bootstrap for index in sorted(partitions))


def load_of(cluster: Cluster, topic: str, batch_bytes: int, effort: Effort) -> Load:
    """Return a load of one connection to the leader of each partition."""
    return Load(
        bootstrap="",
        topic=topic,
        kind="produce",
        batch_bytes=batch_bytes,
        connections=PARTITIONS,
        in_flight=IN_FLIGHT,
        warm_up_seconds=effort.warm_up_seconds,
        seconds=effort.seconds,
        acks=ALL,
        leaders=leaders(cluster, topic),
    )


def warm_up(cluster: Cluster, effort: Effort) -> None:
    """Send enough of each size that the JVMs have compiled their way through."""
    for batch_bytes in (SMALL_BATCH_BYTES, LARGE_BATCH_BYTES):
        with replicated_topic(cluster, PARTITIONS) as topic:
            load = load_of(cluster, topic, batch_bytes, effort)
            requests = effort.scaled(WARM_UP_REQUESTS) // PARTITIONS
            run_load(replace(load, warm_up_seconds=0.0, seconds=0.0, at_least_requests=requests), lambda: None)


def produce(arena: ClusterArena, batch_bytes: int, metrics: list[Metric]) -> list[Metric]:
    """Send batches of one size to six partitions, over a connection to the leader of each."""

    def measure(cluster: Cluster) -> Mapping[str, float]:
        cpu_before = 0.0

        def on_start() -> None:
            nonlocal cpu_before
            cpu_before = cluster.cpu_seconds()

        with replicated_topic(cluster, PARTITIONS) as topic:
            count = run_load(load_of(cluster, topic, batch_bytes, arena.effort), on_start)
            return figures(count, cluster.cpu_seconds() - cpu_before)

    return arena.alternate(metrics, measure)


def produce_large(arena: ClusterArena) -> list[Metric]:
    """16 KB batches, acks=all."""
    metrics = [Metric(RATE, "/s", Target(at_least=2.5)), Metric(CPU_PER_MEGABYTE, "ms", Target())]
    return produce(arena, LARGE_BATCH_BYTES, metrics)


def produce_java(arena: ClusterArena) -> list[Metric]:
    """Kafka's ProducerPerformance with records of 1,000 bytes, as fast as it goes, acks=all."""
    metrics = [Metric(RECORDS_PER_SECOND, "/s", Target(at_least=1.5)), Metric("p99", "ms", Target())]
    records = arena.effort.scaled(1_000_000)  # fewer, and the client measures how its own JVM warms up

    def measure(cluster: Cluster) -> Mapping[str, float]:
        with replicated_topic(cluster, PARTITIONS) as topic:
            return producer_performance(cluster.bootstrap, topic, records, 1_000, "acks=all")

    return arena.alternate(metrics, measure)


def calm_latency(arena: ClusterArena) -> list[Metric]:
    """1,000 records a second, one record a request, acks=all."""
    metrics = [Metric("p50", "ms", Target()), Metric("p99", "ms", Target(at_most=1.0))]
    effort = arena.effort

    def measure(cluster: Cluster) -> Mapping[str, float]:
        with replicated_topic(cluster, CONNECTIONS) as topic:
            latencies = run_schedule(
                Schedule(
                    bootstrap="",
                    topic=topic,
                    records=int(CALM_RECORDS_PER_SECOND * (effort.seconds + effort.warm_up_seconds)),
                    records_per_second=CALM_RECORDS_PER_SECOND,
                    acks=ALL,
                    leaders=leaders(cluster, topic),
                )
            )
        settled = latencies[int(CALM_RECORDS_PER_SECOND * effort.warm_up_seconds) :]
        return {metric.name: percentile(settled, float(metric.name[1:])) * 1e3 for metric in metrics}

    return arena.alternate(metrics, measure)


def memory(arena: ClusterArena) -> list[Metric]:
    """The three brokers as the lines before this one have left them: warm, and used."""
    metrics = [Metric("RSS of the three", "MB", Target(at_most=1 / 5))]
    return arena.alternate(metrics, lambda cluster: {metrics[0].name: cluster.rss_bytes() / MEGABYTE}, warm_ups=0)


LINES: Final = (
    Line("rf3-produce", "three brokers: produce, raw, 16 KB batches, acks=all", produce_large),
    Line("rf3-java", "three brokers: produce, Java client, 1 KB records, acks=all", produce_java),
    Line("rf3-latency", "three brokers: acknowledged write at 1,000 records/s, acks=all", calm_latency),
    Line("rf3-memory", "three brokers: memory after load", memory),
)
