"""The Java consumer in a group, through Apache Kafka's own tools, with both group protocols."""

import uuid
from collections.abc import Callable

import pytest
from confluent_kafka import Producer

from highwater.testing.waiting import PATIENCE_SECONDS

Java = Callable[..., str]

CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
GROUP_COMMAND = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_console_consumers_group_is_described_reset_and_deleted(
    java: Java, bootstrap: str, topic: str, producer: Producer, protocol: str
) -> None:
    group = f"group-{uuid.uuid4().hex[:8]}"
    for number in range(10):
        producer.produce(topic, str(number).encode())
    producer.flush(PATIENCE_SECONDS)

    def consume(count: int) -> list[str]:
        return java(
            CONSOLE_CONSUMER,
            *("--bootstrap-server", bootstrap, "--topic", topic, "--group", group),
            *("--consumer-property", f"group.protocol={protocol}", "--consumer-property", "auto.offset.reset=earliest"),
            *("--max-messages", str(count), "--timeout-ms", "30000"),
        ).split()

    def groups(*arguments: str) -> str:
        return java(GROUP_COMMAND, "--bootstrap-server", bootstrap, *arguments)

    assert consume(4) == ["0", "1", "2", "3"]
    assert consume(3) == ["4", "5", "6"]
    described = groups("--describe", "--group", group).split()
    assert described[described.index(topic) + 1 :][:4] == ["0", "7", "10", "3"]  # partition, current, end, lag
    to_earliest = ("--reset-offsets", "--topic", topic, "--to-earliest", "--execute")
    groups("--group", group, *to_earliest)
    assert consume(1) == ["0"]
    assert "successful" in groups("--delete", "--group", group)


def test_consumer_performance_reads_every_record(
    java: Java, bootstrap: str, new_topic: Callable[..., str], producer: Producer
) -> None:
    topic = new_topic(partitions=3)
    for number in range(30_000):
        producer.produce(topic, b"x" * 100, partition=number % 3)
        producer.poll(0)
    producer.flush(PATIENCE_SECONDS)
    report = java(
        "org.apache.kafka.tools.ConsumerPerformance",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--messages", "30000", "--timeout", "30000"),
    )
    header, figures = report.splitlines()[-2:]
    columns = dict(zip(header.split(", "), figures.split(", "), strict=True))
    assert int(columns["data.consumed.in.nMsg"]) == 30_000
