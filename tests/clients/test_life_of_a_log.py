"""Where logs lie, how long they are kept and when they are forced to disk, as a client and an operator see it."""

import re
import urllib.request
from collections import Counter

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.testing.broker import BrokerProcess
from highwater.testing.plugin import BrokerFactory
from highwater.testing.ports import free_port
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until


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
        lambda: sum(path.stat().st_size for path in (broker.data_dir / "small-0").glob("*.log")) < 40_000,
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
