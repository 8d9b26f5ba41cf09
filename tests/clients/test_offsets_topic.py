"""The offsets topic on disk: where a group is kept, and that Kafka's own tools read it."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from highwater.testing.plugin import BrokerFactory

GROUP = "KafkaConsumerDemo"
PARTITION_OF_GROUP = 35
METADATA = "a note\0"
"""confluent-kafka counts the end of its string as a part of it."""


def consume_and_commit(bootstrap: str, protocol: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(PATIENCE_SECONDS)
    config = {"bootstrap.servers": bootstrap, "group.id": GROUP, "group.protocol": protocol}
    with closing(Consumer(config)) as consumer:
        consumer.subscribe(["orders"])
        wait_until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2, "the assignment")
        offsets = [TopicPartition("orders", number, 42 + number, METADATA[:-1]) for number in range(2)]
        consumer.commit(offsets=offsets, asynchronous=False)


@pytest.fixture(params=["classic", "consumer"])
def segment(request: pytest.FixtureRequest, start_broker: BrokerFactory) -> Path:
    """The segment that a group of either protocol has left behind."""
    broker = start_broker()
    consume_and_commit(broker.bootstrap_servers, request.param)
    assert broker.stop() == 0
    return broker.data_dir / f"__consumer_offsets-{PARTITION_OF_GROUP}" / "00000000000000000000.log"


def records_in(dumped: str) -> Iterator[tuple[dict[str, Any], Any]]:
    """The keys and values of the records in what Kafka's tool printed."""
    for line in dumped.splitlines():
        if " key: " in line:
            key, _, payload = line.partition(" key: ")[2].partition(" payload: ")
            yield json.loads(key), None if payload == "<DELETE>" else json.loads(payload)


def test_kafkas_dump_tool_reads_our_groups(segment: Path, java: Callable[..., str]) -> None:
    dumped = java("kafka.tools.DumpLogSegments", "--files", str(segment), "--offsets-decoder", "--skip-record-metadata")
    records = list(records_in(dumped))
    assert records
    commits = {
        key["data"]["partition"]: value["data"]
        for key, value in records
        if key["type"] == "1" and key["data"]["group"] == GROUP
    }
    assert {number: (said["offset"], said["metadata"]) for number, said in commits.items()} == {
        0: (42, METADATA),
        1: (43, METADATA),
    }
    assert {key["type"] for key, _ in records} in ({"1", "2"}, {"1", "3", "5", "6", "7", "8"})


def test_our_dump_shows_offsets_as_kafka_shows_them(segment: Path) -> None:
    command = [sys.executable, "-m", "highwater", "dump", "--print-data", str(segment)]
    shown = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert f"[{GROUP},orders,0]::OffsetAndMetadata(offset=42" in shown
    assert f"[{GROUP},orders,1]::OffsetAndMetadata(offset=43" in shown
