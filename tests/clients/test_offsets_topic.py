"""The offsets topic on disk: where a group is kept, that Kafka's tools read it, and that Kafka and we can swap it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks.brokers import ApacheKafka
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.testing.group_requests import coordinator_of
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from highwater.testing.plugin import BrokerFactory

GROUP = "KafkaConsumerDemo"
PARTITION_OF_GROUP = 35
OTHER_GROUP = "console-consumer-49366"
PARTITION_OF_OTHER_GROUP = 19
NOTE = "a note"
METADATA = NOTE + "\0"
"""confluent-kafka counts the end of its string as a part of it when it writes, and not when it reads."""


def make_topic(bootstrap: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(PATIENCE_SECONDS)


def consume_and_commit(bootstrap: str, protocol: str, *, group: str = GROUP, offset: int = 42) -> None:
    """Let a member come, commit two offsets with a note, and go."""
    config = {"bootstrap.servers": bootstrap, "group.id": group, "group.protocol": protocol, "log_level": 2}
    with closing(Consumer(config)) as consumer:
        consumer.subscribe(["orders"])
        wait_until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2, "the assignment")
        offsets = [TopicPartition("orders", number, offset + number, NOTE) for number in range(2)]
        consumer.commit(offsets=offsets, asynchronous=False)


def committed(bootstrap: str, group: str) -> dict[int, tuple[int, str]]:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 2})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    answer = asked[group].result(PATIENCE_SECONDS)
    return {each.partition: (each.offset, each.metadata) for each in answer.topic_partitions or ()}


@pytest.fixture(params=["classic", "consumer"])
def segment(request: pytest.FixtureRequest, start_broker: BrokerFactory) -> Path:
    """The segment that a group of either protocol has left behind."""
    broker = start_broker()
    make_topic(broker.bootstrap_servers)
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


def test_apache_kafka_and_we_go_on_with_each_others_groups(start_broker: BrokerFactory, tmp_path: Path) -> None:
    """The files of the offsets topic go from Kafka to us and back; offsets, notes and both kinds of group are there."""
    with ApacheKafka(tmp_path / "kafka") as kafka:
        make_topic(kafka.bootstrap)
        consume_and_commit(kafka.bootstrap, "classic", group=GROUP)
        consume_and_commit(kafka.bootstrap, "consumer", group=OTHER_GROUP)
        kafka.stop()

        ours = start_broker()
        make_topic(ours.bootstrap_servers)
        coordinator_of(GROUP, [ours.bootstrap_servers]).close()
        assert ours.stop() == 0
        swap_in(kafka.directory / "data", ours.data_dir)
        ours.start()
        for group in (GROUP, OTHER_GROUP):
            coordinator_of(group, [ours.bootstrap_servers]).close()
            assert committed(ours.bootstrap_servers, group) == {0: (42, NOTE), 1: (43, NOTE)}
        consume_and_commit(ours.bootstrap_servers, "classic", group=GROUP, offset=50)
        consume_and_commit(ours.bootstrap_servers, "consumer", group=OTHER_GROUP, offset=60)
        assert ours.stop() == 0

        swap_in(ours.data_dir, kafka.directory / "data")
        kafka.start()
        for group, first in ((GROUP, 50), (OTHER_GROUP, 60)):
            coordinator_of(group, [kafka.bootstrap]).close()
            assert committed(kafka.bootstrap, group) == {0: (first, NOTE), 1: (first + 1, NOTE)}
        consume_and_commit(kafka.bootstrap, "consumer", group=OTHER_GROUP, offset=70)


def swap_in(source: Path, target: Path) -> None:
    """Give a stopped broker the groups of another; a partition's own description stays."""
    for number in (PARTITION_OF_GROUP, PARTITION_OF_OTHER_GROUP):
        name = f"__consumer_offsets-{number}"
        for file in (target / name).iterdir():
            if file.name != "partition.metadata":
                file.unlink()
        for file in (source / name).iterdir():
            if file.name != "partition.metadata":
                shutil.copy(file, target / name)
