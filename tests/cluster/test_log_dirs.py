"""Log dirs of a cluster: a disk fails or lies, and partitions move between disks by Kafka's own tool."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from highwater.testing.broker import BrokerProcess
from highwater.testing.cluster import ClusterProcesses
from highwater.testing.failing_disk import MODULE, break_disk, repair_disk
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

Look: TypeAlias = Callable[[ClusterProcesses], Any]
Java: TypeAlias = Callable[..., str]
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
TOPIC = "ledger"
PARTITIONS = 4


class TwoDisks(ClusterProcesses):
    """Three brokers with two log dirs each, whose disks fail when they are told to."""

    def disks(self, broker: int) -> list[Path]:
        return [self.brokers[broker].data_dir.with_name(name) for name in ("one", "two")]


@pytest.fixture(scope="module")
def cluster() -> Iterator[TwoDisks]:
    settings = {"log.dirs": "one,two", "min.insync.replicas": 2, "replica.lag.time.max.ms": 4000}
    with TwoDisks(3, settings, module=MODULE) as running:
        yield running


def partitions_on(disk: Path, topic: str) -> set[int]:
    return {int(folder.name.rpartition("-")[2]) for folder in disk.glob(f"{topic}-*")}


def write(cluster: ClusterProcesses, topic: str, values: list[bytes], *, partition: int) -> None:
    settings = {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "enable.idempotence": True}
    producer = Producer(settings | {"message.timeout.ms": 60_000, "log_level": 0, "linger.ms": 0})
    outcomes: list[object] = []
    for value in values:
        producer.produce(topic, value, partition=partition, on_delivery=lambda error, _: outcomes.append(error))
    assert producer.flush(60) == 0
    assert outcomes == [None] * len(values)


def read(cluster: ClusterProcesses, topic: str, partition: int, count: int) -> list[bytes]:
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "r", "log_level": 0})
    consumer.assign([TopicPartition(topic, partition, 0)])
    values: list[bytes] = []
    while len(values) < count:
        message = consumer.poll(PATIENCE_SECONDS)
        assert message is not None, f"only {len(values)} of {count}"
        assert message.error() is None
        values.append(message.value() or b"")
    consumer.close()
    return values


def test_the_partitions_of_a_failed_disk_are_led_by_others(cluster: TwoDisks, look: Look) -> None:
    view = look(cluster)
    view.create(TOPIC, PARTITIONS, 3)
    for partition in range(PARTITIONS):
        write(cluster, TOPIC, [b"before"], partition=partition)
    victim = view.leaders(TOPIC)[0]
    good, bad = cluster.disks(victim)
    if 0 not in partitions_on(bad, TOPIC):
        good, bad = bad, good
    lost, kept = partitions_on(bad, TOPIC), partitions_on(good, TOPIC)
    assert len(lost) == len(kept) == 2
    led_and_kept = {index for index, leader in view.leaders(TOPIC).items() if leader == victim and index in kept}

    break_disk(bad)
    for partition in range(PARTITIONS):
        write(cluster, TOPIC, [b"after"], partition=partition)

    def has_moved() -> bool:
        partitions = view.topic(TOPIC).partitions
        return all(partitions[index].leader != victim and victim not in partitions[index].isrs for index in lost)

    wait_until(has_moved, "others lead what the disk held")
    assert {index for index, leader in view.leaders(TOPIC).items() if leader == victim} >= led_and_kept
    assert all(victim in view.topic(TOPIC).partitions[index].isrs for index in kept)
    for partition in range(PARTITIONS):
        assert read(cluster, TOPIC, partition, 2) == [b"before", b"after"]

    broker = cluster.brokers[victim]
    assert broker.stop() == 0
    repair_disk(bad)
    broker.start()
    everybody = set(cluster.brokers)
    wait_until(
        lambda: all(set(partition.isrs) == everybody for partition in view.topic(TOPIC).partitions.values()),
        "the broker is in sync again",
    )


def test_kafkas_tool_moves_partitions_to_log_dirs(cluster: TwoDisks, look: Look, java: Java, tmp_path: Path) -> None:
    """One replica stays on its broker and changes its disk, another comes to a broker and to a disk of it."""
    view = look(cluster)
    view.create("settler", 1, 1, min_insync_replicas="1")
    values = [b"%d" % number for number in range(50)]
    write(cluster, "settler", values, partition=0)
    first = view.leaders("settler")[0]
    second = next(broker for broker in cluster.brokers if broker != first)
    (target,) = [disk for disk in cluster.disks(first) if not (disk / "settler-0").exists()]
    beside = cluster.disks(second)[0]
    plan = tmp_path / "plan.json"
    moved = {"topic": "settler", "partition": 0, "replicas": [first, second], "log_dirs": [str(target), str(beside)]}
    plan.write_text(json.dumps({"version": 1, "partitions": [moved]}))
    tool = (REASSIGN, "--bootstrap-server", cluster.bootstrap_servers, "--reassignment-json-file", str(plan))
    assert java(*tool, "--execute").count("Successfully started moving log directory to") == 2
    wait_until((target / "settler-0").exists, "the replica has changed its disk")
    wait_until((beside / "settler-0").exists, "the other replica is where it was asked to be")
    wait_until(lambda: set(view.topic("settler").partitions[0].isrs) == {first, second}, "both are in sync")
    verified = java(*tool, "--verify")
    assert "Reassignment of partition settler-0 is completed." in verified
    assert verified.count("Reassignment of replica settler-0-") == 2
    assert verified.count("completed successfully") == 2
    assert read(cluster, "settler", 0, len(values)) == values


def flip_a_bit(log_dirs: list[Path], name: str, value: bytes) -> None:
    """Damage a record in the middle of a log, behind the broker's back."""
    (folder,) = [disk / name for disk in log_dirs if (disk / name).exists()]
    segment = folder / "00000000000000000000.log"
    content = bytearray(segment.read_bytes())
    content[content.index(value)] ^= 1
    segment.write_bytes(content)


def verify(broker: BrokerProcess, folder: Path) -> str:
    command = [sys.executable, "-m", "highwater", "dump", "--verify", str(folder)]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=broker.data_dir.parent).stdout


def test_damaged_records_are_never_copied_to_a_follower(
    cluster: TwoDisks, look: Look, java: Java, tmp_path: Path
) -> None:
    view = look(cluster)
    view.create("fragile", 1, 1, min_insync_replicas="1")
    values = [b"value-%d" % number * 10 for number in range(20)]
    for value in values:
        write(cluster, "fragile", [value], partition=0)
    leader = view.leaders("fragile")[0]
    flip_a_bit(cluster.disks(leader), "fragile-0", values[12])
    follower = next(broker for broker in cluster.brokers if broker != leader)
    move = {"version": 1, "partitions": [{"topic": "fragile", "partition": 0, "replicas": [leader, follower]}]}
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(move))
    server = ("--bootstrap-server", cluster.bootstrap_servers)
    assert "Successfully started" in java(REASSIGN, *server, "--reassignment-json-file", str(plan), "--execute")

    log_file = cluster.brokers[follower].log_file
    complaint = re.compile(r"partition_not_fetched partition=fragile-0 code=CORRUPT_MESSAGE .*at offset 12\b")
    wait_until(lambda: complaint.search(log_file.read_text()) is not None, "the follower says which offset is damaged")
    assert view.topic("fragile").partitions[0].isrs == [leader]
    (copied,) = [disk / "fragile-0" for disk in cluster.disks(follower) if (disk / "fragile-0").exists()]
    assert values[11] in (copied / "00000000000000000000.log").read_bytes(), "what comes before is good"
    assert values[13] not in (copied / "00000000000000000000.log").read_bytes()

    cluster.brokers[leader].stop()
    (damaged,) = [disk / "fragile-0" for disk in cluster.disks(leader) if (disk / "fragile-0").exists()]
    found = verify(cluster.brokers[leader], damaged)
    assert "offset 12" in found
    assert "checksum" in found
