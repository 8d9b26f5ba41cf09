"""A disk that is full refuses writes and nothing else, and writing goes on when there is room again."""

import contextlib
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from highwater.protocol.messages.fetch import FetchResponse
from highwater.protocol.messages.produce import ProduceResponse
from highwater.protocol.records.batch import iter_batches
from highwater.protocol.records.record import build_batch, numbered, read_records
from highwater.testing.broker import BrokerProcess
from highwater.testing.plugin import BrokerFactory
from highwater.testing.requests import fetch_request, produce_request
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until
from highwater.testing.wire import WireClient

TOPIC: Final = "full"
RECORD_BYTES: Final = 100_000
MEBIBYTE: Final = 1 << 20

Disk = Callable[[], contextlib.AbstractContextManager[tuple[BrokerProcess, Callable[[], None]]]]


@pytest.fixture(params=["small disk", "file size limit"])
def nearly_full(request: pytest.FixtureRequest, start_broker: BrokerFactory, tmp_path: Path) -> Disk:
    """A broker with room for a few megabytes, and the way to give it more."""
    if request.param == "small disk":
        return lambda: on_a_small_disk(start_broker, tmp_path)
    return lambda: under_a_file_size_limit(start_broker)


@contextlib.contextmanager
def on_a_small_disk(
    start_broker: BrokerFactory, folder: Path, *, least_free: int = 0
) -> Iterator[tuple[BrokerProcess, Callable[[], None]]]:
    """A file system of 8 MiB in memory: ENOSPC, as an operator meets it. Needs the right to mount."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("this user may not mount a file system")
    try:
        broker = start_broker({"log.dirs": folder / "data", "log.dirs.min.free.bytes": least_free})
        yield broker, lambda: run("mount", "-o", "remount,size=64m", str(folder))
        broker.kill()
    finally:
        run("umount", "--lazy", str(folder))


def run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@contextlib.contextmanager
def under_a_file_size_limit(start_broker: BrokerFactory) -> Iterator[tuple[BrokerProcess, Callable[[], None]]]:
    """No file may grow over 4 MiB: EFBIG. Any user may set that for its own processes; indexes are kept below it."""
    broker = start_broker({"log.index.size.max.bytes": 65_536})
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, (4 * MEBIBYTE, resource.RLIM_INFINITY))
    lifted = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    yield broker, lambda: set_limit(broker, lifted)


def set_limit(broker: BrokerProcess, limits: tuple[int, int]) -> None:
    resource.prlimit(broker.pid, resource.RLIMIT_FSIZE, limits)


def make_topic(client: WireClient) -> None:
    topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1)
    created = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), CreateTopicsResponse, 5)
    assert created.topics[0].error_code == ErrorCode.NONE


def append(client: WireClient, number: int) -> int:
    value = str(number).encode().ljust(RECORD_BYTES)
    batch = build_batch(numbered([(None, value)], timestamp_ms=-1))
    answer = client.call(produce_request(TOPIC, batch), ProduceResponse, 8)
    return answer.responses[0].partition_responses[0].error_code


def read_from(client: WireClient, offset: int) -> tuple[list[int], int]:
    """The numbers in one answer, and the high watermark."""
    answer = client.call(fetch_request(TOPIC, offset, max_wait_ms=0, max_bytes=10 * MEBIBYTE), FetchResponse, 11)
    partition = answer.responses[0].partitions[0]
    assert partition.error_code == ErrorCode.NONE
    view = partition.records
    assert isinstance(view, memoryview)
    numbers = [
        int(record.value or b"")
        for position, header in iter_batches(view)
        for record in read_records(view[position : position + header.size])
    ]
    return numbers, partition.high_watermark


def read_all(client: WireClient) -> list[int]:
    numbers: list[int] = []
    while True:
        more, high_watermark = read_from(client, len(numbers))
        numbers += more
        if len(numbers) == high_watermark:
            return numbers


def test_a_full_disk_refuses_writes_serves_reads_and_loses_nothing(nearly_full: Disk) -> None:
    with nearly_full() as (broker, make_room), WireClient(broker.bootstrap_servers) as client:
        make_topic(client)

        acknowledged: list[int] = []
        while (code := append(client, len(acknowledged))) == ErrorCode.NONE:
            acknowledged.append(len(acknowledged))
            assert len(acknowledged) < 1_000
        assert code == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(acknowledged) > 10
        assert append(client, 0) == ErrorCode.KAFKA_STORAGE_ERROR
        assert read_all(client) == acknowledged

        make_room()
        for _ in range(5):
            assert append(client, len(acknowledged)) == ErrorCode.NONE
            acknowledged.append(len(acknowledged))
        assert read_all(client) == acknowledged

        broker.kill()
        broker.start()
        with WireClient(broker.bootstrap_servers) as later:
            assert read_all(later) == acknowledged


def refusal(client: WireClient) -> str | None:
    """What a producer is told if a batch is refused; it repeats one that is there, so that nothing is added."""
    batch = build_batch(numbered([(None, b"0")], timestamp_ms=-1), producer_id=7, producer_epoch=0, base_sequence=0)
    answer = client.call(produce_request(TOPIC, batch), ProduceResponse, 8)
    receipt = answer.responses[0].partition_responses[0]
    return receipt.error_message if receipt.error_code == ErrorCode.KAFKA_STORAGE_ERROR else None


def free_bytes(folder: Path) -> int:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize


def test_a_disk_that_fills_up_refuses_producers_before_it_is_full(start_broker: BrokerFactory, tmp_path: Path) -> None:
    """Committed offsets, which keep readers going, are still taken; when there is room again, so are records."""
    with (
        on_a_small_disk(start_broker, tmp_path, least_free=5 * MEBIBYTE) as (broker, make_room),
        WireClient(broker.bootstrap_servers) as client,
    ):
        make_topic(client)
        assert refusal(client) is None
        acknowledged = [0]
        while free_bytes(tmp_path) > 4 * MEBIBYTE and append(client, len(acknowledged)) == ErrorCode.NONE:
            acknowledged.append(len(acknowledged))
        wait_until(lambda: refusal(client) is not None, "producers are refused")
        assert "bytes free; log.dirs.min.free.bytes asks for 5242880" in (refusal(client) or "")
        assert free_bytes(tmp_path) > 3 * MEBIBYTE
        assert read_all(client) == acknowledged
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
        consumer.commit(offsets=[TopicPartition(TOPIC, 0, 3)], asynchronous=False)
        assert consumer.committed([TopicPartition(TOPIC, 0)], timeout=PATIENCE_SECONDS)[0].offset == 3
        consumer.close()

        make_room()
        wait_until(lambda: append(client, len(acknowledged)) == ErrorCode.NONE, "records are taken again")


def test_the_least_room_is_a_setting_that_can_be_changed(start_broker: BrokerFactory) -> None:
    """More than any disk has, and nothing again; a real producer waits in between, and loses nothing."""
    broker = start_broker()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})

    def ask_for(least: int) -> None:
        entry = ConfigEntry("log.dirs.min.free.bytes", str(least), incremental_operation=AlterConfigOpType.SET)
        change = ConfigResource(ResourceType.BROKER, "0", incremental_configs=[entry])
        for future in admin.incremental_alter_configs([change]).values():
            future.result(PATIENCE_SECONDS)

    with WireClient(broker.bootstrap_servers) as client:
        make_topic(client)
        ask_for(1 << 60)
        wait_until(lambda: append(client, 0) == ErrorCode.KAFKA_STORAGE_ERROR, "producers are refused")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        outcomes: list[object] = []
        producer.produce(TOPIC, b"1", on_delivery=lambda error, _: outcomes.append(error))
        producer.poll(1)
        assert outcomes == []
        ask_for(0)
        assert producer.flush(PATIENCE_SECONDS) == 0
        assert outcomes == [None]
        assert read_all(client)[-1] == 1
