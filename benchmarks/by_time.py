"""The line about work on single records: the offset of a timestamp, which lies inside a compressed batch."""

import time
from collections.abc import Mapping
from typing import Final

from confluent_kafka import Producer

from benchmarks.brokers import Broker
from benchmarks.generator import Load
from benchmarks.measuring import Arena, Metric, Target
from benchmarks.raw_clients import CPU_PER_REQUEST, MANY_CONNECTIONS, RATE, run
from benchmarks.topics import TIMEOUT_SECONDS, scratch_topic

RECORDS: Final = 20_000
RECORDS_PER_BATCH: Final = 100
LOOKUPS: Final = 500


def offsets_by_time(arena: Arena) -> list[Metric]:
    """Look up timestamps all over a partition of lz4 batches, a hundred records in each."""
    metrics = [Metric(RATE, "/s", Target(at_least=1.0)), Metric(CPU_PER_REQUEST, "µs", Target())]
    records = arena.effort.scaled(RECORDS)
    first_ms = int(time.time() * 1000) - records
    timestamps = tuple(range(first_ms, first_ms + records, max(1, records // LOOKUPS)))

    def measure(broker: Broker) -> Mapping[str, float]:
        load = Load(
            bootstrap=broker.bootstrap,
            topic=topics[broker.name],
            kind="offset by time",
            batch_bytes=0,
            connections=MANY_CONNECTIONS,
            in_flight=2,
            warm_up_seconds=arena.effort.warm_up_seconds,
            seconds=arena.effort.seconds,
            timestamps=timestamps,
        )
        return run(load, broker)

    with scratch_topic(arena.ours, 1) as ours, scratch_topic(arena.theirs, 1) as theirs:
        topics = {arena.ours.name: ours, arena.theirs.name: theirs}
        for broker in arena.brokers:
            fill_in_time_order(broker, topics[broker.name], first_ms, records)
        return arena.alternate(metrics, measure)


def fill_in_time_order(broker: Broker, topic: str, first_ms: int, records: int) -> None:
    """Append records a millisecond apart."""
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "compression.type": "lz4",
            "batch.num.messages": RECORDS_PER_BATCH,
            "linger.ms": 100,
        }
    )
    for number in range(records):
        value = f"record {number} ".encode() * 8
        producer.produce(topic, value, partition=0, timestamp=first_ms + number)
        producer.poll(0)
    assert producer.flush(TIMEOUT_SECONDS) == 0
