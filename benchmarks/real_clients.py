"""Lines with the clients that people use: Apache Kafka's performance tools and librdkafka."""

import re
import subprocess
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.brokers import KAFKA_JARS, Broker
from benchmarks.measuring import Arena, Metric, Target
from benchmarks.topics import scratch_topic

PARTITIONS: Final = 3
TOOL_TIMEOUT_SECONDS: Final = 600.0
MEGABYTE: Final = 1_000_000
RECORDS_PER_SECOND, MEGABYTES_PER_SECOND = "records/s", "MB/s"


class ClientFailed(Exception):
    """A client lost records or did not end well."""


def java_tool(main_class: str, *arguments: str) -> str:
    """Run one of Apache Kafka's tools and return what it printed."""
    command = ["java", "-Xmx512M", "-server", "-XX:+UseG1GC", "-cp", f"{KAFKA_JARS}/*", main_class, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_SECONDS, check=False)
    if done.returncode:
        raise ClientFailed(f"{main_class} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class JavaLoad:
    """What a Java producer sends in one turn."""

    record_bytes: int
    records: int


JAVA_SMALL: Final = JavaLoad(record_bytes=100, records=15_000_000)
JAVA_LARGE: Final = JavaLoad(record_bytes=1_000, records=3_000_000)


def produce_java(arena: Arena, load: JavaLoad) -> list[Metric]:
    """Kafka's ProducerPerformance, as fast as it goes, with every default of the Java producer."""
    metrics = [Metric(RECORDS_PER_SECOND, "/s", Target(at_least=1.4)), Metric("p99", "ms", Target())]

    def measure(broker: Broker) -> Mapping[str, float]:
        with scratch_topic(broker, PARTITIONS) as topic:
            return producer_performance(broker.bootstrap, topic, arena.effort.scaled(load.records), load.record_bytes)

    return arena.alternate_alone(metrics, measure)


def producer_performance(
    bootstrap: str, topic: str, records: int, record_bytes: int, *properties: str
) -> Mapping[str, float]:
    """Run ProducerPerformance as fast as it goes; return its rate and its p99."""
    report = java_tool(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", str(records), "--record-size", str(record_bytes)),
        *("--throughput", "-1", "--producer-props", f"bootstrap.servers={bootstrap}", *properties),
    )
    summary = report.splitlines()[-1]
    found = re.match(r"(\d+) records sent, ([\d.]+) records/sec .* ([\d.]+) ms 99th", summary)
    if found is None or int(found[1]) != records:
        raise ClientFailed(f"not all {records} records were sent: {summary}")
    return {RECORDS_PER_SECOND: float(found[2]), "p99": float(found[3])}


def produce_java_small(arena: Arena) -> list[Metric]:
    """Records of 100 bytes."""
    return produce_java(arena, JAVA_SMALL)


def produce_java_large(arena: Arena) -> list[Metric]:
    """Records of 1,000 bytes."""
    return produce_java(arena, JAVA_LARGE)


def consume_java(arena: Arena) -> list[Metric]:
    """Kafka's ConsumerPerformance over records of 1,000 bytes."""
    metrics = [Metric(MEGABYTES_PER_SECOND, "MB/s", Target(at_least=1.0))]
    records = arena.effort.scaled(600_000)

    def measure(broker: Broker) -> Mapping[str, float]:
        report = java_tool(
            "org.apache.kafka.tools.ConsumerPerformance",
            *("--bootstrap-server", broker.bootstrap, "--topic", topics[broker.name], "--group", uuid.uuid4().hex),
            *("--messages", str(records), "--timeout", "60000"),
        )
        header, figures = report.splitlines()[-2:]
        columns = dict(zip(header.split(", "), figures.split(", "), strict=True))
        if int(columns["data.consumed.in.nMsg"]) < records:
            raise ClientFailed(f"not all {records} records were read: {figures}")
        return {MEGABYTES_PER_SECOND: float(columns["fetch.MB.sec"])}

    with scratch_topic(arena.ours, PARTITIONS) as ours, scratch_topic(arena.theirs, PARTITIONS) as theirs:
        topics = {arena.ours.name: ours, arena.theirs.name: theirs}
        for broker in arena.brokers:
            send_with_librdkafka(broker, topics[broker.name], records, 1_000)
        return arena.alternate_alone(metrics, measure)


def produce_librdkafka(arena: Arena) -> list[Metric]:
    """librdkafka through its Python binding, records of 1,000 bytes, every default."""
    metrics = [Metric(RECORDS_PER_SECOND, "/s", Target(at_least=1.0))]
    records = arena.effort.scaled(400_000)

    def measure(broker: Broker) -> Mapping[str, float]:
        with scratch_topic(broker, PARTITIONS) as topic:
            return {RECORDS_PER_SECOND: records / send_with_librdkafka(broker, topic, records, 1_000)}

    return arena.alternate_alone(metrics, measure)


def send_with_librdkafka(broker: Broker, topic: str, records: int, record_bytes: int) -> float:
    """Send records and return how many seconds it took until the last one was acknowledged."""
    failures: list[object] = []
    producer = Producer({"bootstrap.servers": broker.bootstrap, "queue.buffering.max.messages": 1_000_000})
    value = b"x" * record_bytes

    def on_delivery(error: object, _: object) -> None:
        if error is not None:
            failures.append(error)

    started = time.perf_counter()
    for number in range(records):
        while True:
            try:
                producer.produce(topic, value, partition=number % PARTITIONS, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.1)
        if number % 1_000 == 0:
            producer.poll(0)
    if producer.flush(TOOL_TIMEOUT_SECONDS) or failures:
        raise ClientFailed(f"records were not delivered: {failures[:3]}")
    return time.perf_counter() - started


def consume_librdkafka(arena: Arena) -> list[Metric]:
    """librdkafka through its Python binding, records of 1,000 bytes, every default."""
    metrics = [Metric(MEGABYTES_PER_SECOND, "MB/s", Target(at_least=1.0))]
    records = arena.effort.scaled(600_000)

    def measure(broker: Broker) -> Mapping[str, float]:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "bench", "enable.auto.commit": False})
        consumer.assign([TopicPartition(topics[broker.name], number, 0) for number in range(PARTITIONS)])
        read = size = 0
        started = time.perf_counter()
        while read < records:
            arrived = consumer.consume(10_000, 1.0)
            if not arrived and time.perf_counter() - started > TOOL_TIMEOUT_SECONDS:
                raise ClientFailed(f"only {read} of {records} records came")
            for record in arrived:
                if (error := record.error()) is not None:
                    raise ClientFailed(str(error))
                size += len(record)
            read += len(arrived)
        seconds = time.perf_counter() - started
        consumer.close()
        return {MEGABYTES_PER_SECOND: size / seconds / MEGABYTE}

    with scratch_topic(arena.ours, PARTITIONS) as ours, scratch_topic(arena.theirs, PARTITIONS) as theirs:
        topics = {arena.ours.name: ours, arena.theirs.name: theirs}
        for broker in arena.brokers:
            send_with_librdkafka(broker, topics[broker.name], records, 1_000)
        return arena.alternate_alone(metrics, measure)
