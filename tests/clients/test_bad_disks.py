"""A disk that fails takes its own partitions with it and no others; once it is well, everything is found again."""

import contextlib
import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.app.world import DISK_THREADS
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
from highwater.protocol.messages.fetch import FetchResponse
from highwater.protocol.messages.produce import ProduceResponse
from highwater.protocol.records.batch import iter_batches
from highwater.testing.broker import BrokerFailed, BrokerProcess
from highwater.testing.failing_disk import MODULE, break_disk, break_sending, hang_disk, repair_disk
from highwater.testing.log_bench import a_batch
from highwater.testing.requests import fetch_request, produce_request
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until
from highwater.testing.wire import ConnectionClosed, WireClient

TOPIC = "spread"
PARTITIONS = 4


class House:
    """A broker with two log dirs, two partitions in each."""

    def __init__(self, folder: Path) -> None:
        self.disks = [folder / "a", folder / "b"]
        with socket.create_server(("127.0.0.1", 0)) as found:
            self.metrics_address = f"127.0.0.1:{found.getsockname()[1]}"
        settings = {"log.dirs": ",".join(map(str, self.disks)), "metrics.listener": self.metrics_address}
        self.broker = BrokerProcess(settings, module=MODULE)
        self.broker.start()
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(PATIENCE_SECONDS)
        for partition in range(PARTITIONS):
            assert self.write(partition) == ErrorCode.NONE

    def on(self, disk: Path) -> list[int]:
        return sorted(int(folder.name.rpartition("-")[2]) for folder in disk.glob(f"{TOPIC}-*"))

    def write(self, partition: int) -> int:
        with WireClient(self.broker.bootstrap_servers) as client:
            request = produce_request(TOPIC, a_batch(b"v"), partition=partition)
            return client.call(request, ProduceResponse, 8).responses[0].partition_responses[0].error_code

    def read(self, partition: int) -> tuple[int, int]:
        """Return the error and the number of batches."""
        with WireClient(self.broker.bootstrap_servers) as client:
            answer = client.call(fetch_request(TOPIC, 0, partition=partition, max_wait_ms=0), FetchResponse, 11)
        found = answer.responses[0].partitions[0]
        view = found.records
        return found.error_code, len(list(iter_batches(view))) if isinstance(view, memoryview) else 0

    def errors_of_log_dirs(self) -> dict[str, int]:
        with WireClient(self.broker.bootstrap_servers) as client:
            answer = client.call(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, 4)
        return {result.log_dir: result.error_code for result in answer.results}

    def metric(self, name: str) -> float:
        with urllib.request.urlopen(f"http://{self.metrics_address}/metrics", timeout=PATIENCE_SECONDS) as answer:
            lines = answer.read().decode().splitlines()
        return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    house = House(tmp_path)
    yield house
    house.broker.remove()


def test_the_partitions_of_other_disks_are_served_on(house: House) -> None:
    good, bad = house.disks
    assert house.on(good) == [0, 2]
    assert house.on(bad) == [1, 3]
    break_disk(bad)
    assert house.write(1) == ErrorCode.KAFKA_STORAGE_ERROR

    wait_until(lambda: house.errors_of_log_dirs()[str(bad)] == ErrorCode.KAFKA_STORAGE_ERROR, "the disk is offline")
    assert house.errors_of_log_dirs()[str(good)] == ErrorCode.NONE
    assert house.read(3) == (ErrorCode.KAFKA_STORAGE_ERROR, 0), "nobody wrote to it, and its disk failed too"
    assert house.write(0) == ErrorCode.NONE
    assert house.read(2) == (ErrorCode.NONE, 1)
    assert house.metric("highwater_offline_log_dirs") == 1
    assert house.metric("highwater_offline_partitions") == 2
    assert f'log_dir_offline log_dir={bad} reason="Input/output error"' in house.broker.log_file.read_text()

    # New partitions go where there is a disk.
    admin = AdminClient({"bootstrap.servers": house.broker.bootstrap_servers})
    admin.create_topics([NewTopic("later", 2, 1)])["later"].result(PATIENCE_SECONDS)
    assert sorted(folder.name for folder in good.glob("later-*")) == ["later-0", "later-1"]

    assert house.broker.stop() == 0
    house.broker.start()
    assert house.read(0) == (ErrorCode.NONE, 2)
    assert house.read(1) == (ErrorCode.KAFKA_STORAGE_ERROR, 0), (
        "started without that disk, and not begun anew elsewhere"
    )
    assert house.on(good) == [0, 2]
    assert house.errors_of_log_dirs()[str(bad)] == ErrorCode.KAFKA_STORAGE_ERROR

    assert house.broker.stop() == 0
    repair_disk(bad)
    house.broker.start()
    assert [house.read(partition) for partition in range(4)] == [(ErrorCode.NONE, count) for count in (2, 1, 1, 1)]


def test_a_disk_that_cannot_be_read_is_noticed_by_reading(house: House) -> None:
    bad = house.disks[1]
    house.broker.kill()
    house.broker.start()
    break_disk(bad)
    assert house.read(1)[1] == 0
    wait_until(lambda: house.errors_of_log_dirs()[str(bad)] == ErrorCode.KAFKA_STORAGE_ERROR, "the disk is offline")
    assert house.write(3) == ErrorCode.KAFKA_STORAGE_ERROR


def test_a_disk_that_fails_in_the_midst_of_an_answer_is_taken_offline(house: House) -> None:
    """It used to cost the connection only: the reader came back, again and again, to the same broken disk."""
    bad = house.disks[1]
    with WireClient(house.broker.bootstrap_servers) as client:
        for _ in range(3):  # more than is read and sent with the head of an answer
            client.call(produce_request(TOPIC, a_batch(bytes(40_000)), partition=1), ProduceResponse, 8)
    assert house.read(1) == (ErrorCode.NONE, 4)
    break_sending(bad)
    with pytest.raises(ConnectionClosed):
        house.read(1)
    wait_until(lambda: house.errors_of_log_dirs()[str(bad)] == ErrorCode.KAFKA_STORAGE_ERROR, "the disk is offline")
    assert house.read(1) == (ErrorCode.KAFKA_STORAGE_ERROR, 0)
    assert house.read(0) == (ErrorCode.NONE, 1)


def test_who_waits_for_a_slow_disk_keeps_nobody_else_waiting(house: House) -> None:
    """Old data is found and read on a thread; the loop that serves everybody never reads what is not in memory."""
    slow = house.disks[1]
    for partition in range(PARTITIONS):
        with WireClient(house.broker.bootstrap_servers) as client:
            client.call(produce_request(TOPIC, a_batch(bytes(100_000)), partition=partition), ProduceResponse, 8)
    assert house.broker.stop() == 0
    house.broker.start()
    assert house.write(3) == ErrorCode.NONE, "the first write looks at what is there"
    hang_disk(slow)
    with contextlib.ExitStack() as stack:
        readers = [stack.enter_context(WireClient(house.broker.bootstrap_servers)) for _ in range(DISK_THREADS + 2)]
        asked = [reader.send(fetch_request(TOPIC, 0, partition=1, max_wait_ms=0), 11) for reader in readers]
        for _ in range(20):
            assert house.write(3) == ErrorCode.NONE, "writes to the slow disk too"
        assert house.read(0) == (ErrorCode.NONE, 2), "which waits for its own disk, and for no other"
        repair_disk(slow)
        for reader, number in zip(readers, asked, strict=True):
            records = reader.receive(FetchResponse, 11, number).responses[0].partitions[0].records
            assert isinstance(records, memoryview)
            assert len(list(iter_batches(records))) == 2


def test_a_real_client_learns_which_of_its_records_were_not_taken(house: House) -> None:
    break_disk(house.disks[1])
    failed: list[KafkaError] = []
    delivered: list[int | None] = []
    producer = Producer(
        {"bootstrap.servers": house.broker.bootstrap_servers, "message.timeout.ms": 3000, "log_level": 0}
    )
    for partition in range(PARTITIONS):
        producer.produce(
            TOPIC,
            b"x",
            partition=partition,
            on_delivery=lambda error, message: failed.append(error) if error else delivered.append(message.partition()),
        )
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert sorted(delivered, key=str) == [0, 2]
    assert len(failed) == 2


def test_without_any_disk_the_broker_stops(house: House) -> None:
    """Others may lead in its place; a broker that is there and serves nothing would keep clients waiting."""
    for disk in house.disks:
        break_disk(disk)
    for partition in (0, 1):
        with contextlib.suppress(OSError, ConnectionClosed):  # it may have stopped by now
            assert house.write(partition) == ErrorCode.KAFKA_STORAGE_ERROR
    wait_until(lambda: not house.broker.is_running, "the end of the broker")
    assert house.broker.exit_code == 1
    assert "the disk of every log dir has failed" in house.broker.log_file.read_text()


def test_a_broker_without_any_disk_does_not_start(house: House) -> None:
    assert house.broker.stop() == 0
    for disk in house.disks:
        break_disk(disk)
    with pytest.raises(BrokerFailed, match="the disk of every log dir has failed"):
        house.broker.start()
