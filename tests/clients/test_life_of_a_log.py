"""Where logs lie, how long they are kept and when they are forced to disk, as a client and an operator see it."""

import re
import select
import urllib.request
from collections import Counter

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.fetch import FetchResponse, PartitionData
from highwater.protocol.messages.produce import ProduceResponse
from highwater.protocol.records.batch import iter_batches
from highwater.protocol.records.record import read_records
from highwater.protocol.records.validate import check_batch
from highwater.testing.broker import BrokerProcess
from highwater.testing.log_bench import a_batch
from highwater.testing.plugin import BrokerFactory
from highwater.testing.ports import free_port
from highwater.testing.requests import fetch_request, produce_request
from highwater.testing.sizes import bytes_of
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until
from highwater.testing.wire import WireClient


def make_topic(broker: BrokerProcess, name: str, partitions: int = 1, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    asked = NewTopic(name, partitions, 1, config={key.replace("_", "."): value for key, value in config.items()})
    admin.create_topics([asked])[name].result(PATIENCE_SECONDS)


def write(broker: BrokerProcess, topic: str, count: int, value: bytes = b"x") -> None:
    """Write records one by one, each in a batch of its own."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0})
    for _ in range(count):
        producer.produce(topic, value, partition=0)
        assert producer.flush(PATIENCE_SECONDS) == 0


def offsets(broker: BrokerProcess, topic: str) -> tuple[int, int]:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "unused"})
    try:
        earliest, latest = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=PATIENCE_SECONDS)
        return earliest, latest
    finally:
        consumer.close()


def metric(address: str, name: str, label: str = "") -> float:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE_SECONDS) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if re.match(rf"{name}\b", line) and label in line)


def test_partitions_are_spread_over_the_log_dirs_and_found_there_again(start_broker: BrokerFactory) -> None:
    broker = start_broker()
    folders = [broker.data_dir / name for name in ("one", "two", "three")]
    broker.stop()
    broker.settings["log.dirs"] = ",".join(map(str, folders))
    broker.start()
    make_topic(broker, "spread", partitions=9)
    write(broker, "spread", 3)
    held = Counter({folder.name: len(list(folder.glob("spread-*"))) for folder in folders})
    assert held == {"one": 3, "two": 3, "three": 3}
    broker.kill()
    broker.start()
    assert offsets(broker, "spread") == (0, 3)
    assert sum(len(list(folder.glob("spread-*"))) for folder in folders) == 9


def test_records_older_than_retention_ms_go(start_broker: BrokerFactory) -> None:
    broker = start_broker(log_retention_check_interval_ms=100, log_segment_delete_delay_ms=0)
    make_topic(broker, "short-lived", retention_ms="1")
    write(broker, "short-lived", 5)
    wait_until(lambda: offsets(broker, "short-lived") == (5, 5), "everything gone, and the end where it was")
    write(broker, "short-lived", 1)
    assert offsets(broker, "short-lived")[1] == 6


def test_a_topic_keeps_about_retention_bytes(start_broker: BrokerFactory) -> None:
    broker = start_broker(log_retention_check_interval_ms=100, log_segment_delete_delay_ms=0)
    make_topic(broker, "small", retention_bytes="20000", segment_bytes="10000")
    write(broker, "small", 60, b"x" * 1000)
    wait_until(lambda: offsets(broker, "small")[0] > 0, "old segments gone")
    log_files = list((broker.data_dir / "small-0").glob("*.log"))
    wait_until(
        lambda: bytes_of((broker.data_dir / "small-0").glob("*.log")) < 40_000,
        f"a small folder, not {log_files}",
    )
    assert offsets(broker, "small")[1] == 60


def test_flush_messages_forces_every_append_to_disk_before_it_is_acknowledged(start_broker: BrokerFactory) -> None:
    address = f"127.0.0.1:{free_port()}"
    broker = start_broker(metrics_listener=address)
    make_topic(broker, "lazy")
    make_topic(broker, "careful", flush_messages="1")
    write(broker, "lazy", 3)
    assert metric(address, "highwater_log_flushes_total") == 0
    write(broker, "careful", 3)
    assert metric(address, "highwater_log_flushes_total") == 3


def test_metrics_count_what_clients_did(start_broker: BrokerFactory) -> None:
    address = f"127.0.0.1:{free_port()}"
    broker = start_broker(metrics_listener=address)
    make_topic(broker, "counted")
    write(broker, "counted", 4)
    assert metric(address, "highwater_log_appended_batches_total") == 4
    assert metric(address, "highwater_requests_total", 'api="Produce"') == 4
    assert metric(address, "highwater_log_end_offset", 'topic="counted"') == 4
    assert metric(address, "highwater_under_replicated_partitions") == 0
    assert metric(address, "highwater_active_controllers") == 1


def a_part(broker: BrokerProcess, topic: str, offset: int) -> PartitionData:
    with WireClient(broker.bootstrap_servers) as client:
        return client.call(fetch_request(topic, offset, max_wait_ms=0), FetchResponse, 11).responses[0].partitions[0]


def test_whoever_reads_a_segment_reads_it_to_its_end_although_it_is_deleted(start_broker: BrokerFactory) -> None:
    broker = start_broker(log_retention_check_interval_ms=20)
    make_topic(broker, "short", segment_bytes="8000000", retention_ms="-1", file_delete_delay_ms="0")
    with WireClient(broker.bootstrap_servers) as writer:
        for _ in range(9):
            writer.call(produce_request("short", a_batch(bytes(900_000))), ProduceResponse, 8)
    first = broker.data_dir / "short-0" / "00000000000000000000.log"
    with WireClient(broker.bootstrap_servers) as reader:
        # More than sockets hold: most of the answer is still to be read from the file.
        asked = reader.send(fetch_request("short", 0, max_bytes=7_000_000), 11)
        assert select.select([reader.socket], [], [], PATIENCE_SECONDS)[0], "the answer has begun"
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        entry = ConfigEntry("retention.bytes", "100000", incremental_operation=AlterConfigOpType.SET)
        change = ConfigResource(ResourceType.TOPIC, "short", incremental_configs=[entry])
        admin.incremental_alter_configs([change])[change].result(PATIENCE_SECONDS)
        wait_until(lambda: not any(first.parent.glob(f"{first.name}*")), "the end of the segment")
        part = reader.receive(FetchResponse, 11, asked).responses[0].partitions[0]
    assert isinstance(part.records, memoryview)
    found = [check_batch(part.records, position).base_offset for position, _ in iter_batches(part.records)]
    assert found == [*range(7)]
    assert a_part(broker, "short", 0).error_code == ErrorCode.OFFSET_OUT_OF_RANGE


def test_a_reader_that_is_too_slow_for_retention_is_told_so_and_nothing_else(start_broker: BrokerFactory) -> None:
    broker = start_broker(log_retention_check_interval_ms=5)
    make_topic(
        broker, "fast", segment_bytes="4000", retention_bytes="12000", retention_ms="-1", file_delete_delay_ms="0"
    )
    offset = fell_behind = 0
    with WireClient(broker.bootstrap_servers) as writer:
        for number in range(600):
            writer.call(produce_request("fast", a_batch(b"%d" % number)), ProduceResponse, 8)
            if number % 3:
                continue
            part = writer.call(fetch_request("fast", offset, max_bytes=1, max_wait_ms=0), FetchResponse, 11)
            found = part.responses[0].partitions[0]
            if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                offset, fell_behind = offsets(broker, "fast")[0], fell_behind + 1
                continue
            assert found.error_code == ErrorCode.NONE
            assert isinstance(found.records, memoryview)
            (record,) = read_records(found.records)
            assert (record.offset, record.value) == (offset, b"%d" % offset)
            offset += 1
    assert fell_behind
