"""A broker that was killed with much to check: several processes do it, and what they repair is told."""

import os
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.testing.plugin import BrokerFactory
from highwater.testing.waiting import PATIENCE_SECONDS

TOPIC = "large"
PARTITIONS = 4
RECORDS = 400
VALUE = os.urandom(50_000)


def ends(bootstrap: str) -> list[int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused"})
    found = [
        consumer.get_watermark_offsets(TopicPartition(TOPIC, number), timeout=PATIENCE_SECONDS)[1]
        for number in range(PARTITIONS)
    ]
    consumer.close()
    return found


def test_several_processes_check_what_a_crash_left_and_cut_what_is_torn(
    start_broker: BrokerFactory, tmp_path: Path
) -> None:
    disks = [tmp_path / "a", tmp_path / "b"]
    broker = start_broker({"log.dirs": ",".join(map(str, disks))})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(PATIENCE_SECONDS)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "batch.num.messages": 1, "linger.ms": 0})
    for number in range(RECORDS * PARTITIONS):
        producer.produce(TOPIC, VALUE, key=b"%d" % number, partition=number % PARTITIONS)
        producer.poll(0)
    assert producer.flush(PATIENCE_SECONDS) == 0

    broker.kill()
    (torn,) = [disk / f"{TOPIC}-2" for disk in disks if (disk / f"{TOPIC}-2").exists()]
    segment = torn / "00000000000000000000.log"
    os.truncate(segment, segment.stat().st_size - 10)
    broker.start()

    assert ends(broker.bootstrap_servers) == [400, 400, 399, 400]
    told = broker.log_file.read_text()
    assert f"logs_recovered logs={PARTITIONS} megabytes=80/80" in told
    assert f"log_repaired partition={TOPIC}-2" in told
    assert "cut there, at offset 399" in told
    # The producer's sequences are known again: what is sent now follows.
    producer.produce(TOPIC, b"next", partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0
    assert ends(broker.bootstrap_servers)[0] == 401
    broker.kill()
    broker.start()
    assert ends(broker.bootstrap_servers) == [401, 400, 399, 400]
