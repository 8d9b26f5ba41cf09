"""A broker that was killed with much to check, or whose other files are damaged: what it repairs is told."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.protocol.messages.fetch import FetchResponse
from highwater.protocol.messages.produce import ProduceResponse
from highwater.protocol.records.batch import iter_batches
from highwater.testing.log_bench import a_batch
from highwater.testing.plugin import BrokerFactory
from highwater.testing.requests import fetch_request, produce_request
from highwater.testing.waiting import PATIENCE_SECONDS
from highwater.testing.wire import WireClient

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
    assert f"recovering_logs logs=0/{PARTITIONS} megabytes=0/80" in told
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


REBUILT = ("*.index", "*.timeindex", "*.snapshot", "leader-epoch-checkpoint")
CHECKPOINTS = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint")


def files_beside_the_batches(data_dir: Path) -> list[Path]:
    """Return everything of which a log holds a second copy."""
    found = [path for pattern in REBUILT for path in (data_dir / "small-0").glob(pattern)]
    return found + [data_dir / name for name in CHECKPOINTS if (data_dir / name).exists()]


@pytest.mark.parametrize("stop", ["kill", "stop"])
@pytest.mark.parametrize("damage", ["missing", "garbage"])
def test_everything_but_the_batches_is_built_again(start_broker: BrokerFactory, damage: str, stop: str) -> None:
    broker = start_broker()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic("small", 1, 1, config={"segment.bytes": "2000", "index.interval.bytes": "100"})])[
        "small"
    ].result(PATIENCE_SECONDS)
    batches = [a_batch(b"%d" % number, producer_id=5, sequence=number) for number in range(60)]
    with WireClient(broker.bootstrap_servers) as client:
        for batch in batches:
            client.call(produce_request("small", bytearray(batch)), ProduceResponse, 8)
    getattr(broker, stop)()
    found = files_beside_the_batches(broker.data_dir)
    assert len(found) > 8
    for path in found:
        path.unlink()
        if damage == "garbage":
            path.write_bytes(b"\xff" * 100)
    broker.start()
    with WireClient(broker.bootstrap_servers) as client:
        for offset in (0, 31, 59):
            part = (
                client.call(fetch_request("small", offset, max_bytes=1), FetchResponse, 11).responses[0].partitions[0]
            )
            assert isinstance(part.records, memoryview)
            ((_, header),) = iter_batches(part.records)
            assert (header.base_offset, part.high_watermark) == (offset, 60)
        again = client.call(produce_request("small", bytearray(batches[-1])), ProduceResponse, 8)
        assert again.responses[0].partition_responses[0].base_offset == 59, "the producer's sequence is known"
    assert broker.stop() == 0
    command = [sys.executable, "-m", "highwater", "dump", "--verify", str(broker.data_dir)]
    assert subprocess.run(command, capture_output=True, check=False).returncode == 0
