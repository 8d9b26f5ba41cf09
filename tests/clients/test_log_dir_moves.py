"""Partitions move from one log dir to another while clients write and read, and a kill at any moment loses nothing."""

import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from highwater.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from highwater.testing.broker import BrokerProcess
from highwater.testing.plugin import BrokerFactory
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until
from highwater.testing.wire import WireClient

TOPIC = "wanderer"


class House:
    """A broker with two log dirs, and a topic of one partition with small segments."""

    def __init__(self, start_broker: BrokerFactory, folder: Path) -> None:
        self.disks = [folder / "a", folder / "b"]
        self.broker: BrokerProcess = start_broker(
            {"log.dirs": ",".join(map(str, self.disks)), "log.segment.delete.delay.ms": 0}
        )
        self.admin = AdminClient({"bootstrap.servers": self.broker.bootstrap_servers})
        topic = NewTopic(TOPIC, 1, 1, config={"segment.bytes": "200000"})
        self.admin.create_topics([topic])[TOPIC].result(PATIENCE_SECONDS)

    @property
    def here(self) -> Path:
        """The log dir that holds the partition."""
        (holder,) = [disk for disk in self.disks if (disk / f"{TOPIC}-0").exists()]
        return holder

    @property
    def elsewhere(self) -> Path:
        return next(disk for disk in self.disks if disk != self.here)

    def move(self, target: Path | str, topic: str = TOPIC) -> int:
        asked = AlterReplicaLogDirTopic(name=topic, partitions=[0])
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(target), topics=[asked])])
        with WireClient(self.broker.bootstrap_servers) as client:
            answer = client.call(request, AlterReplicaLogDirsResponse, 2)
        return answer.results[0].partitions[0].error_code

    def described(self) -> dict[str, list[DescribeLogDirsPartition]]:
        with WireClient(self.broker.bootstrap_servers) as client:
            answer = client.call(DescribeLogDirsRequest(topics=None), DescribeLogDirsResponse, 4)
        return {
            result.log_dir: [found for topic in result.topics if topic.name == TOPIC for found in topic.partitions]
            for result in answer.results
        }

    def copy_at(self, bytes_per_second: int) -> None:
        self.set(ResourceType.BROKER, "0", "replica.alter.log.dirs.io.max.bytes.per.second", bytes_per_second)

    def set(self, kind: ResourceType, resource: str, name: str, value: int) -> None:
        entry = ConfigEntry(name, str(value), incremental_operation=AlterConfigOpType.SET)
        change = ConfigResource(kind, resource, incremental_configs=[entry])
        for future in self.admin.incremental_alter_configs([change]).values():
            future.result(PATIENCE_SECONDS)

    def read(self, count: int) -> list[bytes | None]:
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap_servers, "group.id": "reader"})
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        values: list[bytes | None] = []
        while len(values) < count:
            message = consumer.poll(PATIENCE_SECONDS)
            assert message is not None
            assert message.error() is None
            values.append(message.value())
        consumer.close()
        return values


class Writer:
    """An idempotent producer that numbers its records until it is stopped."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.acked: list[bytes | None] = []
        self.failed: list[KafkaError] = []
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 1,
                "batch.num.messages": 20,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.wait(0.0005):
            self._producer.produce(TOPIC, b"%d " % number * 100, on_delivery=self._delivered)
            self._producer.poll(0)
            number += 1

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(error)
        else:
            self.acked.append(message.value())

    def go_on(self, more: int = 300) -> None:
        enough = len(self.acked) + more
        wait_until(lambda: len(self.acked) >= enough, "more records are acknowledged")

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(PATIENCE_SECONDS) == 0
        assert self.failed == []


@pytest.fixture
def house(start_broker: BrokerFactory, tmp_path: Path) -> House:
    return House(start_broker, tmp_path)


@pytest.mark.parametrize("flush_messages", [2**63 - 1, 1], ids=["unflushed", "every record flushed"])
def test_a_partition_moves_there_and_back_under_load(house: House, flush_messages: int) -> None:
    house.set(ResourceType.TOPIC, TOPIC, "flush.messages", flush_messages)
    writer = Writer(house.broker.bootstrap_servers)
    writer.go_on(1000)
    identity = (house.here / f"{TOPIC}-0/partition.metadata").read_bytes()
    for _ in range(3):
        target = house.elsewhere
        assert house.move(target) == ErrorCode.NONE
        wait_until((target / f"{TOPIC}-0").exists, "the partition has moved")
        assert (target / f"{TOPIC}-0/partition.metadata").read_bytes() == identity
        writer.go_on()
        found = house.described()
        assert [partition.is_future_key for partition in found[str(target)]] == [False]
        assert found[str(house.elsewhere)] == []
        wait_until(lambda: len(list(house.elsewhere.glob(f"{TOPIC}*"))) == 0, "nothing is left of the old log")
    writer.stop()
    assert house.read(len(writer.acked)) == writer.acked
    assert house.broker.stop() == 0
    house.broker.start()
    assert house.read(len(writer.acked)) == writer.acked


def test_a_move_shows_how_far_it_is_and_can_be_called_off(house: House) -> None:
    writer = Writer(house.broker.bootstrap_servers)
    writer.go_on(1000)
    writer.stop()
    house.copy_at(1)
    here, target = house.here, house.elsewhere
    assert house.move(target) == ErrorCode.NONE
    assert [partition.is_future_key for partition in house.described()[str(here)]] == [False]
    (future,) = house.described()[str(target)]
    assert future.is_future_key
    assert 0 < future.offset_lag <= len(writer.acked)
    assert house.move(here) == ErrorCode.NONE, "it is there: what is under way is called off"
    assert house.described()[str(target)] == []
    wait_until(lambda: not list(target.glob(f"{TOPIC}*")), "nothing is left of the copy")
    assert house.here == here


def test_a_move_that_a_kill_interrupts_goes_on_at_the_next_start(house: House) -> None:
    writer = Writer(house.broker.bootstrap_servers)
    writer.go_on(1000)
    writer.stop()
    house.copy_at(1)
    target = house.elsewhere
    assert house.move(target) == ErrorCode.NONE
    wait_until(lambda: bool(list(target.glob(f"{TOPIC}-0.*-future"))), "the copy has begun")
    house.broker.kill()
    house.broker.start()
    wait_until(lambda: bool(list(target.glob(f"{TOPIC}-0.*-future"))), "the copy has begun again")
    house.copy_at(2**62)
    house.broker.kill()
    house.broker.start()
    wait_until((target / f"{TOPIC}-0").exists, "the partition has moved")
    assert house.read(len(writer.acked)) == writer.acked


@pytest.mark.parametrize("step", ["set aside", "copy in place"])
def test_a_kill_between_the_renames_of_a_move_loses_nothing(house: House, step: str) -> None:
    """What a kill leaves between two renames of the exchange, made by hand: either way there is one whole log."""
    writer = Writer(house.broker.bootstrap_servers)
    writer.go_on(500)
    writer.stop()
    house.broker.kill()
    here, there = house.here, house.elsewhere
    name = f"{TOPIC}-0"
    copy = there / (f"{name}.1-future" if step == "set aside" else name)
    copy.mkdir()
    for file in (here / name).iterdir():
        (copy / file.name).write_bytes(file.read_bytes())
    (here / name).rename(here / f"{name}.2-moved")
    house.broker.start()
    assert house.read(len(writer.acked)) == writer.acked
    wait_until(lambda: len([path for disk in house.disks for path in disk.glob(f"{TOPIC}*")]) == 1, "one log is left")


def test_what_cannot_be_moved_is_told(house: House) -> None:
    assert house.move("/nowhere") == ErrorCode.LOG_DIR_NOT_FOUND
    assert house.move(house.here) == ErrorCode.NONE
    assert house.move(house.here, "not-yet") == ErrorCode.REPLICA_NOT_AVAILABLE


def test_a_partition_that_comes_later_goes_where_it_was_asked_to_be(house: House) -> None:
    assert house.move(house.here, "wanted") == ErrorCode.REPLICA_NOT_AVAILABLE
    house.admin.create_topics([NewTopic("wanted", 1, 1)])["wanted"].result(PATIENCE_SECONDS)
    assert (house.here / "wanted-0").exists(), "though the other log dir holds fewer"
