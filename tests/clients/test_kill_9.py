"""kill -9 under load, again and again: nothing that was acknowledged is lost, and the log on disk is sound."""

import random
import subprocess
import sys
import threading
from typing import Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from highwater.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from highwater.testing.broker import BrokerProcess
from highwater.testing.plugin import BrokerFactory
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until
from highwater.testing.wire import WireClient

ROUNDS: Final = 6
PARTITIONS: Final = 3
TOPIC: Final = "survivor"


class Writer:
    """Sends numbered records as fast as it can, and remembers where each acknowledged one went."""

    def __init__(self, bootstrap: str) -> None:
        self.acknowledged: dict[tuple[int, int], bytes] = {}
        self._stop = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 1})
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        number = 0
        while not self._stop.is_set():
            if len(self._producer) < 2_000:
                value = str(number).encode()
                self._producer.produce(TOPIC, value, partition=number % PARTITIONS, on_delivery=self._on_delivery)
                number += 1
                self._producer.poll(0)
            else:
                self._producer.poll(0.01)

    def _on_delivery(self, error: KafkaError | None, message: Message) -> None:
        partition, offset, value = message.partition(), message.offset(), message.value()
        if error is None and partition is not None and offset is not None and value is not None:
            self.acknowledged[partition, offset] = value

    def finish(self) -> None:
        """Stop sending, and wait until the fate of every record is known."""
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(2 * PATIENCE_SECONDS) == 0


def read_all(bootstrap: str) -> dict[tuple[int, int], bytes]:
    """Everything that the topic holds, by partition and offset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "unused", "enable.auto.commit": False})
    found: dict[tuple[int, int], bytes] = {}
    try:
        partitions = [TopicPartition(TOPIC, number, 0) for number in range(PARTITIONS)]
        wanted = sum(consumer.get_watermark_offsets(part, timeout=PATIENCE_SECONDS)[1] for part in partitions)
        consumer.assign(partitions)

        def is_complete() -> bool:
            for record in consumer.consume(10_000, 0.2):
                assert record.error() is None, record.error()
                partition, offset, value = record.partition(), record.offset(), record.value()
                assert partition is not None
                assert offset is not None
                assert value is not None
                found[partition, offset] = value
            return len(found) >= wanted

        wait_until(is_complete, f"{wanted} records")
    finally:
        consumer.close()
    return found


def verify_on_disk(broker: BrokerProcess) -> None:
    """Run `highwater dump --verify` over the data dir of a broker that is down."""
    folders = sorted(str(folder) for folder in broker.data_dir.glob(f"{TOPIC}-*"))
    assert len(folders) == PARTITIONS
    command = [sys.executable, "-m", "highwater", "dump", "--verify", *folders]
    done = subprocess.run(command, capture_output=True, text=True, timeout=4 * PATIENCE_SECONDS, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_nothing_acknowledged_is_lost_to_kill_9_under_load(start_broker: BrokerFactory) -> None:
    """Small segments, so that rolls, indexes and snapshots are hit too; every write is there once, in order."""
    broker = start_broker({"log.segment.bytes": 200_000, "log.index.interval.bytes": 1_000})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(PATIENCE_SECONDS)
    chance = random.Random(2718)
    writer = Writer(broker.bootstrap_servers)
    try:
        for _ in range(ROUNDS):
            enough = len(writer.acknowledged) + chance.randint(1_000, 8_000)
            wait_until(lambda enough=enough: len(writer.acknowledged) >= enough, "load")  # type: ignore[misc]
            broker.kill()
            broker.start()
    finally:
        writer.finish()

    found = read_all(broker.bootstrap_servers)
    assert found.items() >= writer.acknowledged.items()
    for partition in range(PARTITIONS):
        values = [int(value) for (home, _), value in sorted(found.items()) if home == partition]
        assert values == list(range(partition, partition + PARTITIONS * len(values), PARTITIONS))
    broker.kill()
    broker.start()  # recovery cuts what the last kill left half written; the files are judged after it
    assert broker.stop() == 0
    verify_on_disk(broker)


def test_topics_settings_and_producer_ids_survive_kill_9(start_broker: BrokerFactory) -> None:
    broker = start_broker()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    asked = NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "7200000"})
    admin.create_topics([asked])[TOPIC].result(PATIENCE_SECONDS)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    producer.produce(TOPIC, b"before", partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0
    cluster_id = admin.list_topics(timeout=PATIENCE_SECONDS).cluster_id

    broker.kill()
    broker.start()

    producer.produce(TOPIC, b"after", partition=0)  # the same producer id, and the next sequence
    assert producer.flush(PATIENCE_SECONDS) == 0
    metadata = admin.list_topics(timeout=PATIENCE_SECONDS)
    assert metadata.cluster_id == cluster_id
    assert len(metadata.topics[TOPIC].partitions) == PARTITIONS
    resource = ConfigResource(ResourceType.TOPIC, TOPIC)
    (settings,) = [future.result(PATIENCE_SECONDS) for future in admin.describe_configs([resource]).values()]
    assert settings["retention.ms"].value == "7200000"
    found = read_all(broker.bootstrap_servers)
    assert list(found.values()) == [b"before", b"after"]


def test_a_reader_past_what_a_power_cut_took_is_told_that_the_log_has_changed(start_broker: BrokerFactory) -> None:
    """KIP-320 on one broker: what is written afterwards at the same offsets is not what the reader has read."""
    broker = start_broker()
    topic = "cut"
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})

    def write(*values: bytes) -> None:
        for value in values:
            producer.produce(topic, value)
            assert producer.flush(PATIENCE_SECONDS) == 0

    def leader_epoch() -> int:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        with WireClient(broker.bootstrap_servers) as client:
            return client.call(asked, MetadataResponse, 12).topics[0].partitions[0].leader_epoch

    write(b"0", b"1")
    segment = broker.data_dir / f"{topic}-0" / "00000000000000000000.log"
    kept_bytes = segment.stat().st_size
    write(b"2", b"3")
    settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "unused", "enable.auto.commit": False}
    reader = Consumer({**settings, "auto.offset.reset": "error", "log_level": 0})
    reader.assign([TopicPartition(topic, 0, 0)])
    assert [next_of(reader).value() for _ in range(4)] == [b"0", b"1", b"2", b"3"]
    before = leader_epoch()
    assert broker.stop() == 0
    broker.start()
    assert leader_epoch() == before, "nothing is lost by a clean stop"

    broker.kill()
    with segment.open("r+b") as log:
        log.truncate(kept_bytes)
    broker.start()
    assert leader_epoch() == before + 1
    write(b"other 2", b"other 3", b"4")
    error = next_of(reader).error()
    assert error is not None
    assert "Partition log truncation detected at offset 4" in error.str()
    reader.close()


def next_of(reader: Consumer) -> Message:
    """Return the next record, or what is wrong; a broker that is away for a moment is not."""
    while True:
        message = reader.poll(PATIENCE_SECONDS)
        assert message is not None, "nothing comes any more"
        error = message.error()
        if error is None or error.code() not in {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN}:
            return message
