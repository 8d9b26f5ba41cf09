"""Apache Kafka's own command-line tools, which are the Java clients in another dress.

A JVM takes over a second to start, so each test here walks through a whole task.
"""

import json
import re
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Message, Producer

from highwater.testing.waiting import PATIENCE_SECONDS

NewTopic = Callable[..., str]
Java = Callable[..., str]
Read = Callable[..., list[Message]]


def test_console_producer_writes_what_console_consumer_reads(java: Java, bootstrap: str, topic: str) -> None:
    """Keys, headers and nulls included; the consumer reads one partition, without a group."""
    java(
        "org.apache.kafka.tools.ConsoleProducer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--compression-codec", "zstd"),
        *("--property", "parse.key=true", "--property", "parse.headers=true"),
        *("--property", "null.marker=NULL", "--property", "key.separator=:"),
        stdin="trace:1,span:2\tone:first\nNULL\ttwo:second\nNULL\tthree:NULL\n",
    )
    read = java(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", bootstrap, "--topic", topic, "--partition", "0", "--offset", "earliest"),
        *("--max-messages", "3", "--timeout-ms", "20000"),
        *("--property", "print.key=true", "--property", "print.headers=true"),
        *("--property", "print.offset=true", "--property", "key.separator=:"),
    )
    assert [line for line in read.splitlines() if line.startswith("Offset:")] == [
        "Offset:0:trace:1,span:2:one:first",
        "Offset:1:NO_HEADERS:two:second",
        "Offset:2:NO_HEADERS:three:null",
    ]


def test_producer_performance_delivers_every_record(java: Java, bootstrap: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    report = java(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", "50000", "--record-size", "100", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={bootstrap}", "compression.type=lz4"),
    )
    assert "50000 records sent" in report
    ends = java("org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", bootstrap, "--topic", topic)
    counts = [int(line.rsplit(":", 1)[1]) for line in ends.split()]
    assert (len(counts), sum(counts)) == (3, 50_000)


def test_topics_are_created_described_altered_listed_and_deleted(java: Java, bootstrap: str, topic_name: str) -> None:
    def topics(*arguments: str, fails: bool = False) -> str:
        tool = "org.apache.kafka.tools.TopicCommand"
        return java(tool, "--bootstrap-server", bootstrap, *arguments, fails=fails)

    created = topics("--create", "--topic", topic_name, "--partitions", "2", "--config", "retention.ms=3600000")
    assert f"Created topic {topic_name}." in created
    topics("--alter", "--topic", topic_name, "--partitions", "4")
    description = topics("--describe", "--topic", topic_name)
    assert re.search(r"TopicId: \S{22}\s+PartitionCount: 4\s+ReplicationFactor: 1", description)
    assert "retention.ms=3600000" in description
    assert len(re.findall(r"Partition: \d\s+Leader: (\d+)\s+Replicas: \1\s+Isr: \1", description)) == 4
    assert topic_name in topics("--list").split()
    topics("--delete", "--topic", topic_name)
    missing = topics("--describe", "--topic", topic_name, fails=True)
    assert f"Topic '{topic_name}' does not exist" in missing


def test_configs_are_altered_and_described(java: Java, bootstrap: str, topic: str) -> None:
    def configs(*arguments: str) -> str:
        entity = ("--entity-type", "topics", "--entity-name", topic)
        return java("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, *entity, *arguments)

    configs("--alter", "--add-config", "retention.ms=7200000,cleanup.policy=[compact,delete]")
    shown = configs("--describe")
    assert "retention.ms=7200000" in shown
    assert "cleanup.policy=compact,delete" in shown
    configs("--alter", "--delete-config", "retention.ms")
    every = configs("--describe", "--all")
    assert re.search(r"retention\.ms=604800000 sensitive=false synonyms=\{.*\}", every)
    assert re.search(r"segment\.bytes=1073741824 .*DEFAULT_CONFIG:log\.segment\.bytes=1073741824", every)


def test_a_groups_configs_are_altered_and_described(java: Java, bootstrap: str, topic_name: str) -> None:
    def configs(*arguments: str) -> str:
        entity = ("--entity-type", "groups", "--entity-name", topic_name)
        return java("kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, *entity, *arguments)

    configs("--alter", "--add-config", "consumer.session.timeout.ms=50000,consumer.heartbeat.interval.ms=6000")
    shown = configs("--describe")
    assert "consumer.session.timeout.ms=50000" in shown
    assert "consumer.heartbeat.interval.ms=6000" in shown
    configs("--alter", "--delete-config", "consumer.session.timeout.ms")
    assert "consumer.session.timeout.ms=50000" not in configs("--describe")


def test_log_dirs_show_each_partitions_size(
    java: Java, bootstrap: str, new_topic: NewTopic, producer: Producer
) -> None:
    topic = new_topic(partitions=2)
    producer.produce(topic, b"x" * 10_000, partition=1)
    producer.flush(PATIENCE_SECONDS)
    tool = "org.apache.kafka.tools.LogDirsCommand"
    output = java(tool, "--bootstrap-server", bootstrap, "--describe", "--topic-list", topic)
    report = json.loads(next(line for line in output.splitlines() if line.startswith("{")))
    sizes = {
        partition["partition"]: partition["size"]
        for broker in report["brokers"]
        for log_dir in broker["logDirs"]
        for partition in log_dir["partitions"]
    }
    assert sizes[f"{topic}-0"] == 0
    assert 10_000 < sizes[f"{topic}-1"] < 10_200


def test_records_are_deleted_and_offsets_found(
    java: Java, bootstrap: str, topic: str, producer: Producer, tmp_path: Path
) -> None:
    now_ms = int(time.time() * 1000)
    for number in range(10):
        producer.produce(topic, str(number).encode(), timestamp=now_ms - abs(8 - number))
    producer.flush(PATIENCE_SECONDS)
    asked = tmp_path / "delete.json"
    asked.write_text(json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 6}]}))
    tool = "org.apache.kafka.tools.DeleteRecordsCommand"
    deleted = java(tool, "--bootstrap-server", bootstrap, "--offset-json-file", str(asked))
    assert f"partition: {topic}-0\tlow_watermark: 6" in deleted

    def offset(of: str) -> str:
        offsets = ("--bootstrap-server", bootstrap, "--topic", topic, "--time", of)
        return java("org.apache.kafka.tools.GetOffsetShell", *offsets).strip()

    assert offset("earliest") == f"{topic}:0:6"
    assert offset("latest") == f"{topic}:0:10"
    assert offset("max-timestamp") == f"{topic}:0:8"


def test_every_api_of_the_broker_is_usable_by_the_newest_java_client(java: Java, bootstrap: str) -> None:
    """The tool prints [usable: version] for each API that both sides know, UNSUPPORTED for those we do not serve."""
    shown = java("org.apache.kafka.tools.BrokerApiVersionsCommand", "--bootstrap-server", bootstrap)
    usable = dict(re.findall(r"(\w+)\(\d+\): [\d to]+ \[usable: (\d+)\]", shown))
    newest = {"Produce": "13", "Fetch": "18", "ListOffsets": "10", "Metadata": "13", "ApiVersions": "4"}
    assert {name: usable.get(name) for name in newest} == newest
    assert "Produce(0): 0 to 13" in shown
