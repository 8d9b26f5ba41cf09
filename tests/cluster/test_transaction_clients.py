"""Consume, transform, produce on three brokers that are killed in turn: nothing is lost, nothing is there twice."""

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as Place
from aiokafka.errors import KafkaError as AIOKafkaError
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

from highwater.model.coordinator_partition import partition_for
from highwater.testing.cluster import ClusterProcesses
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

Look: TypeAlias = Callable[[ClusterProcesses], Any]
PROGRAM = Path(__file__).parents[1] / "clients" / "java" / "ConsumeTransformProduce.java"
STATE_PARTITIONS = 6
RECORDS = 600
EXPECTED = [f"{number}!" for number in range(RECORDS)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterProcesses]:
    settings = {
        "zookeeper.session.timeout.ms": 6_000,
        "min.insync.replicas": 2,
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.num.partitions": STATE_PARTITIONS,
    }
    with ClusterProcesses(3, settings) as running:
        yield running


@pytest.fixture(scope="module")
def java_client(java_program: Callable[..., list[str]]) -> list[str]:
    return java_program(PROGRAM, "kafka")


def fill(cluster: ClusterProcesses, topic: str) -> None:
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for number in range(RECORDS):
        producer.produce(topic, str(number).encode(), partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0


def committed(cluster: ClusterProcesses, topic: str) -> list[str]:
    """What readers of committed records see by now."""
    config = {"group.id": "unused", "isolation.level": "read_committed", "enable.partition.eof": True, "log_level": 0}
    found = []
    with closing(Consumer(config | {"bootstrap.servers": cluster.bootstrap_servers})) as consumer:
        consumer.assign([TopicPartition(topic, 0, 0)])
        while (record := consumer.poll(PATIENCE_SECONDS)) is not None:
            error = record.error()
            if error is None:
                found.append((record.value() or b"").decode())
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
    raise AssertionError("neither a record nor the end")


@contextmanager
def running(command: list[str]) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def is_whole(view: Any, *topics: str) -> bool:
    return all(
        len(partition.isrs) == len(partition.replicas)
        for topic in topics
        for partition in view.topic(topic).partitions.values()
    )


@pytest.mark.parametrize("version", [2, 1])
def test_the_java_client_counts_everything_once_while_coordinator_and_leader_are_killed(
    version: int, java: Callable[..., str], java_client: list[str], cluster: ClusterProcesses, look: Look
) -> None:
    view, name = look(cluster), f"word-{version}"
    source, target = f"source-{version}", f"target-{version}"
    if version == 1:
        server = ("--bootstrap-server", cluster.bootstrap_servers)
        java("org.apache.kafka.tools.FeatureCommand", *server, "downgrade", "--feature", "transaction.version=1")
    view.create(source, 1, 3)
    view.create(target, 1, 3)
    fill(cluster, source)
    arguments = [cluster.bootstrap_servers, name, name, source, str(RECORDS), target, "1"]
    with running([*java_client, *arguments]) as process:
        for share, topic, index in (
            (0.2, "__transaction_state", partition_for(name, STATE_PARTITIONS)),
            (0.6, target, 0),
        ):
            wait_until(lambda: len(committed(cluster, target)) > share * RECORDS, "some of it is done")  # noqa: B023
            victim = cluster.brokers[view.leaders(topic)[index]]
            victim.kill()
            victim.start()
            wait_until(lambda: is_whole(view, source, target, "__transaction_state"), "all are in sync")
        output, _ = process.communicate(timeout=2 * PATIENCE_SECONDS)
    assert output.splitlines()[-1] == "done", output
    assert "fenced" not in output
    assert committed(cluster, target) == EXPECTED


async def transform(bootstrap: str, name: str, source: str, target: str) -> bool:
    """Move records in transactions until all are done, which is True, or something fails."""
    place = Place(source, 0)
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap, group_id=name, enable_auto_commit=False, isolation_level="read_committed"
    )
    producer = AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name)
    try:
        await producer.start()  # which ends what the one before has left open, and so the offsets are settled
        await consumer.start()
        consumer.assign([place])
        position = await consumer.committed(place) or 0
        while position < RECORDS:
            consumer.seek(place, position)
            records = (await consumer.getmany(place, max_records=7, timeout_ms=1000)).get(place, [])
            if records:
                async with producer.transaction():
                    for record in records:
                        await producer.send(target, record.value + b"!", partition=0)
                    await producer.send_offsets_to_transaction({place: records[-1].offset + 1}, name)
                position = records[-1].offset + 1
    except AIOKafkaError:
        return False  # A new instance goes on.
    finally:
        await consumer.stop()
        await producer.stop()
    return True


def test_aiokafka_counts_everything_once_while_coordinator_and_leader_are_killed(
    cluster: ClusterProcesses, look: Look
) -> None:
    view, name, source, target = look(cluster), "aio", "source-aio", "target-aio"
    view.create(source, 1, 3)
    view.create(target, 1, 3)
    fill(cluster, source)

    async def work() -> None:
        while not await transform(cluster.bootstrap_servers, name, source, target):
            pass

    with ThreadPoolExecutor(1) as threads:
        working = threads.submit(lambda: asyncio.run(asyncio.wait_for(work(), 4 * PATIENCE_SECONDS)))
        for share, topic, index in (
            (0.2, "__transaction_state", partition_for(name, STATE_PARTITIONS)),
            (0.6, target, 0),
        ):
            wait_until(
                lambda: working.done() or len(committed(cluster, target)) > share * RECORDS,  # noqa: B023
                "some of it is done",
            )
            victim = cluster.brokers[view.leaders(topic)[index]]
            victim.kill()
            victim.start()
            wait_until(lambda: is_whole(view, source, target, "__transaction_state"), "all are in sync")
        working.result()
    assert committed(cluster, target) == EXPECTED
