"""A compacted topic as its users see it: the newest value of every key, always, and in the end little else."""

from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.model.ids import TopicPartition as Partition
from highwater.storage.checkpoints import CLEANED_OFFSETS, read_offsets
from highwater.storage.files import OsFiles
from highwater.testing.broker import BrokerProcess
from highwater.testing.plugin import BrokerFactory
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

KEYS = 20
ROUNDS = 60
FILLER = b"filler"


class Table:
    """A compacted topic of one partition with small segments, on a broker that looks for work all the time."""

    def __init__(self, broker: BrokerProcess, topic: str) -> None:
        self.broker = broker
        self.topic = topic
        configs = {"cleanup.policy": "compact", "segment.bytes": "16384", "min.cleanable.dirty.ratio": "0.01"}
        configs |= {"delete.retention.ms": "0", "file.delete.delay.ms": "0"}
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic(topic, 1, 1, config=configs)])[topic].result(PATIENCE_SECONDS)

    def write(self, changes: Iterator[tuple[bytes, bytes | None]]) -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers, "batch.num.messages": 5})
        for key, value in changes:
            producer.produce(self.topic, key=key, value=value)
        assert producer.flush(PATIENCE_SECONDS) == 0

    def write_rounds(self, value: Callable[[int, int], bytes | None], rounds: int = ROUNDS) -> None:
        self.write((b"k%d" % key, value(key, number)) for number in range(rounds) for key in range(KEYS))

    def fill(self) -> None:
        """Write enough for a new segment: only sealed ones are compacted."""
        self.write((FILLER, b"y" * 200) for _ in range(100))

    def read(self) -> list[Message]:
        """Read from the beginning to the end."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.broker.bootstrap_servers,
                "group.id": "reader",
                "enable.partition.eof": True,
                "enable.auto.commit": False,
            }
        )
        consumer.assign([TopicPartition(self.topic, 0, 0)])
        found: list[Message] = []
        while (message := consumer.poll(PATIENCE_SECONDS)) is not None and message.error() is None:
            found.append(message)
        consumer.close()
        return found

    def values(self) -> dict[bytes, bytes]:
        found = {message.key(): message.value() for message in self.read()}
        return {key: value for key, value in found.items() if key and value is not None and key != FILLER}


@pytest.fixture
def table(start_broker: BrokerFactory) -> Table:
    return Table(start_broker(log_cleaner_backoff_ms=50), "prices")


def test_a_reader_from_the_beginning_always_ends_up_with_the_newest_value_of_every_key(table: Table) -> None:
    table.write_rounds(lambda key, number: b"%d-%d" % (key, number) + b"x" * 40)
    expected = {b"k%d" % key: b"%d-%d" % (key, ROUNDS - 1) + b"x" * 40 for key in range(KEYS)}

    def is_compacted() -> bool:
        messages = table.read()
        offsets = [message.offset() or 0 for message in messages]
        assert offsets == sorted(set(offsets))
        assert {message.key(): message.value() for message in messages} == expected
        return len(messages) < KEYS * ROUNDS // 2

    wait_until(is_compacted, "compaction")
    table.broker.kill()
    table.broker.start()
    assert table.values() == expected


def test_a_damaged_checkpoint_of_the_cleaner_is_told_and_written_anew(table: Table) -> None:
    """Without it nothing counts as compacted: everything is read once more, and nothing is lost."""
    checkpoint = table.broker.data_dir / CLEANED_OFFSETS

    def compacted_to() -> int:
        return read_offsets(OsFiles(), checkpoint).get(Partition(table.topic, 0), 0)

    table.write_rounds(lambda key, number: b"%d-%d" % (key, number) + b"x" * 40)
    wait_until(lambda: compacted_to() > 0, "compaction")
    before, kept = compacted_to(), table.values()
    table.broker.stop()
    checkpoint.write_bytes(b"0\n1\nprices 0")
    table.broker.start()
    assert "checkpoint_damaged" in table.broker.log_file.read_text()
    table.fill()
    wait_until(lambda: checkpoint.read_bytes() != b"0\n1\nprices 0" and compacted_to() > before, "a checkpoint again")
    assert table.values() == kept
    assert "log_cannot_be_compacted" not in table.broker.log_file.read_text()


def test_deleted_keys_are_gone_in_the_end(table: Table) -> None:
    table.write_rounds(lambda key, _: b"%d" % key)
    table.write_rounds(lambda key, _: None if key < KEYS // 2 else b"kept", rounds=1)
    deleted = {b"k%d" % key for key in range(KEYS // 2)}

    def are_gone() -> bool:
        table.fill()
        return not deleted & {message.key() for message in table.read()}

    wait_until(are_gone, "the end of the tombstones")
    assert table.values() == {b"k%d" % key: b"kept" for key in range(KEYS // 2, KEYS)}


def test_a_log_that_cannot_be_compacted_is_named_and_does_not_stop_the_others(table: Table) -> None:
    damaged = Table(table.broker, "damaged")
    folder = table.broker.data_dir / "damaged-0"
    first = folder / "00000000000000000000.log"
    wait_until(folder.exists, "the partition's folder")
    damaged.write((b"k", b"x" * 50) for _ in range(10))
    content = bytearray(first.read_bytes())
    content[-1] ^= 1
    first.write_bytes(content)
    damaged.fill()
    wait_until(
        lambda: "log_cannot_be_compacted partition=damaged-0" in table.broker.log_file.read_text(), "the complaint"
    )

    table.write_rounds(lambda _, number: b"%d" % number + b"x" * 40)
    wait_until(lambda: len(table.read()) < KEYS * ROUNDS // 2, "compaction of the other topic")
