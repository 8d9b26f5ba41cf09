"""Lines with the raw generator: the same bytes to both, and the broker is the bottleneck."""

from collections.abc import Mapping
from typing import Final

from benchmarks.brokers import Broker
from benchmarks.generator import Count, Load, run_load
from benchmarks.measuring import Arena, Metric, Target
from benchmarks.process_stats import cpu_seconds
from benchmarks.topics import scratch_topic

MEGABYTE: Final = 1_000_000
LARGE_BATCH_BYTES: Final = 16_384
SMALL_BATCH_BYTES: Final = 200
MANY_CONNECTIONS: Final = 8
LARGE_FETCH_BYTES: Final = 1 << 20
READ_RANGE_BYTES: Final = 64 << 20
"""How much of each partition the readers go round in: it stays in the page cache."""

RATE, CPU_PER_REQUEST, CPU_PER_MEGABYTE = "requests/s", "CPU per request", "CPU per MB"


def run(load: Load, broker: Broker) -> Mapping[str, float]:
    """Run a load and return its figures."""
    cpu_before = 0.0

    def on_start() -> None:
        nonlocal cpu_before
        cpu_before = cpu_seconds(broker.pid)

    count = run_load(load, on_start)
    return figures(count, cpu_seconds(broker.pid) - cpu_before)


def figures(count: Count, cpu: float) -> Mapping[str, float]:
    """Return the rate, and what a request and a megabyte cost."""
    return {
        RATE: count.requests / count.seconds,
        CPU_PER_REQUEST: cpu / count.requests * 1e6,
        CPU_PER_MEGABYTE: cpu / count.payload_bytes * MEGABYTE * 1e3,
    }


def produce(arena: Arena, batch_bytes: int, connections: int, in_flight: int, metrics: list[Metric]) -> list[Metric]:
    """Send batches of one size over `connections`, each to a partition of its own."""

    def measure(broker: Broker) -> Mapping[str, float]:
        with scratch_topic(broker, connections) as topic:
            return run(produce_load(arena, broker.bootstrap, topic, batch_bytes, connections, in_flight), broker)

    return arena.alternate_alone(metrics, measure)


def produce_load(
    arena: Arena, bootstrap: str, topic: str, batch_bytes: int, connections: int, in_flight: int, kind: str = "produce"
) -> Load:
    """Return the load of one round."""
    return Load(
        bootstrap=bootstrap,
        topic=topic,
        kind=kind,
        batch_bytes=batch_bytes,
        connections=connections,
        in_flight=in_flight,
        warm_up_seconds=arena.effort.warm_up_seconds,
        seconds=arena.effort.seconds,
    )


def produce_large(arena: Arena) -> list[Metric]:
    """16 KB batches, eight connections with five requests in flight each, as producers have by default."""
    metrics = [
        Metric(RATE, "/s", Target(at_least=2.5)),
        Metric(CPU_PER_MEGABYTE, "ms", Target(at_most=1 / 3)),
    ]
    return produce(arena, LARGE_BATCH_BYTES, MANY_CONNECTIONS, 5, metrics)


def produce_small(arena: Arena) -> list[Metric]:
    """200-byte batches, eight connections with five requests in flight each."""
    metrics = [
        Metric(RATE, "/s", Target(at_least=2)),
        Metric(CPU_PER_REQUEST, "µs", Target(at_most=1 / 3)),
    ]
    return produce(arena, SMALL_BATCH_BYTES, MANY_CONNECTIONS, 5, metrics)


def produce_one_by_one(arena: Arena) -> list[Metric]:
    """200-byte batches, one connection, one in flight: the round trip, where joining work gains nothing."""
    metrics = [
        Metric(RATE, "/s", Target()),
        Metric(CPU_PER_REQUEST, "µs", Target()),
    ]
    return produce(arena, SMALL_BATCH_BYTES, 1, 1, metrics)


def consume_large(arena: Arena) -> list[Metric]:
    """1 MB fetches of 16 KB batches by two connections."""
    metrics = [
        Metric(RATE, "/s", Target(at_least=1.0)),
        Metric(CPU_PER_MEGABYTE, "ms", Target(at_most=0.8)),
    ]
    return consume(arena, LARGE_BATCH_BYTES, LARGE_FETCH_BYTES, 2, metrics)


def consume_small(arena: Arena) -> list[Metric]:
    """Fetches of one 200-byte batch each by eight connections."""
    metrics = [
        Metric(RATE, "/s", Target(at_least=2)),
        Metric(CPU_PER_REQUEST, "µs", Target()),
    ]
    return consume(arena, SMALL_BATCH_BYTES, 1, MANY_CONNECTIONS, metrics)


def consume(arena: Arena, batch_bytes: int, fetch_bytes: int, connections: int, metrics: list[Metric]) -> list[Metric]:
    """Fill a partition for each connection, then read round and round in it."""
    topics: dict[str, str] = {}
    batches = min(READ_RANGE_BYTES // batch_bytes, arena.effort.scaled(20_000))
    step = max(1, fetch_bytes // batch_bytes)
    offsets = tuple(range(0, batches - step, step))

    def measure(broker: Broker) -> Mapping[str, float]:
        load = Load(
            bootstrap=broker.bootstrap,
            topic=topics[broker.name],
            kind="fetch",
            batch_bytes=batch_bytes,
            connections=connections,
            in_flight=2,
            warm_up_seconds=arena.effort.warm_up_seconds,
            seconds=arena.effort.seconds,
            fetch_bytes=fetch_bytes,
            offsets=offsets,
        )
        return run(load, broker)

    with scratch_topic(arena.ours, connections) as ours, scratch_topic(arena.theirs, connections) as theirs:
        for broker, topic in ((arena.ours, ours), (arena.theirs, theirs)):
            topics[broker.name] = topic
            fill(broker, topic, connections, batch_bytes, batches)
        return arena.alternate_alone(metrics, measure)


def fill(broker: Broker, topic: str, partitions: int, batch_bytes: int, batches: int) -> None:
    """Append at least `batches` batches to each partition."""
    load = Load(
        bootstrap=broker.bootstrap,
        topic=topic,
        kind="produce",
        batch_bytes=batch_bytes,
        connections=partitions,
        in_flight=5,
        warm_up_seconds=0.0,
        seconds=0.0,
        at_least_requests=batches,
    )
    run_load(load, on_start=lambda: None)
