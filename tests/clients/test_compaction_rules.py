"""Each rule of compaction, on one running broker that has memory for some two dozen keys only."""

import time
import urllib.request
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.fetch import FetchResponse
from highwater.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from highwater.protocol.records.batch import BatchHeader, iter_batches
from highwater.protocol.records.control import MarkerType
from highwater.protocol.records.record import Record, read_records
from highwater.storage.replay import marker_of
from highwater.testing.broker import BrokerProcess
from highwater.testing.log_bench import a_batch
from highwater.testing.ports import free_port
from highwater.testing.requests import fetch_request, produce_request
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until
from highwater.testing.wire import WireClient

HOUR_MS = 3_600_000
MEMORY_BYTES = 6_000
METRICS = f"127.0.0.1:{free_port()}"
names = (f"table-{number}" for number in count())


def now_ms() -> int:
    return time.time_ns() // 1_000_000


class Table:
    """A compacted topic of one partition, with segments of about five records."""

    def __init__(self, broker: BrokerProcess, **configs: object) -> None:
        self.broker = broker
        self.name = next(names)
        self._fillers = (b"filler-%d" % number for number in count())
        self._admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        settings = {"cleanup.policy": "compact", "segment.bytes": "1000", "min.cleanable.dirty.ratio": "0.01"}
        settings |= {name.replace("_", "."): str(value) for name, value in configs.items()}
        self._admin.create_topics([NewTopic(self.name, 1, 1, config=settings)])[self.name].result(PATIENCE_SECONDS)

    @property
    def folder(self) -> Path:
        return self.broker.data_dir / f"{self.name}-0"

    def alter(self, **configs: object) -> None:
        alter(self._admin, ResourceType.TOPIC, self.name, **configs)

    def append(self, batch: bytearray) -> PartitionProduceResponse:
        with WireClient(self.broker.bootstrap_servers) as client:
            answer = client.call(produce_request(self.name, batch), ProduceResponse, 8)
        return answer.responses[0].partition_responses[0]

    def put(self, key: bytes, value: bytes | None, *, age_ms: int = 0) -> None:
        padded = None if value is None else value.ljust(100)
        batch = a_batch(padded, keys=[key], timestamps=[now_ms() - age_ms])
        assert self.append(batch).error_code == ErrorCode.NONE

    def roll(self) -> None:
        """Write what begins a new segment: only sealed ones are compacted."""
        for _ in range(6):
            self.put(next(self._fillers), b"")

    def batches(self) -> Iterator[tuple[BatchHeader, bytes]]:
        """Read every batch, whoever wrote it and however its transaction ended."""
        offset = 0
        with WireClient(self.broker.bootstrap_servers) as client:
            while True:
                answer = client.call(fetch_request(self.name, offset, max_wait_ms=0), FetchResponse, 11)
                found = answer.responses[0].partitions[0]
                if found.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
                    offset = found.log_start_offset if found.log_start_offset > offset else offset + 1
                    continue
                view = bytes(found.records) if isinstance(found.records, memoryview) else b""
                headers = list(iter_batches(view))
                for position, header in headers:
                    yield header, view[position : position + header.size]
                if not headers:
                    return
                offset = headers[-1][1].next_offset

    def records(self) -> list[Record]:
        return [
            record
            for header, batch in self.batches()
            if not header.is_control
            for record in read_records(batch)
            if not (record.key or b"").startswith(b"filler")
        ]

    def values(self, key: bytes) -> list[bytes | None]:
        return [record.value and record.value.strip() for record in self.records() if record.key == key]


def alter(admin: AdminClient, kind: ResourceType, name: str, **configs: object) -> None:
    entries = [
        ConfigEntry(key.replace("_", "."), str(value), incremental_operation=AlterConfigOpType.SET)
        for key, value in configs.items()
    ]
    for future in admin.incremental_alter_configs([ConfigResource(kind, name, incremental_configs=entries)]).values():
        future.result(PATIENCE_SECONDS)


def metric(name: str) -> float:
    with urllib.request.urlopen(f"http://{METRICS}/metrics", timeout=PATIENCE_SECONDS) as answer:
        lines = answer.read().decode().splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"{name} "))


@pytest.fixture(scope="module")
def broker() -> Iterator[BrokerProcess]:
    settings = {
        "log.cleaner.backoff.ms": 20,
        "log.cleaner.dedupe.buffer.size": MEMORY_BYTES,
        "log.retention.check.interval.ms": 50,
        "metrics.listener": METRICS,
    }
    running = BrokerProcess(settings).start()
    yield running
    running.remove()


def a_round_goes_by(broker: BrokerProcess) -> None:
    """Return when the broker has compacted a topic that was made just now: it has looked at the others before."""
    other = Table(broker)
    other.put(b"k", b"old")
    other.put(b"k", b"new")
    other.roll()
    wait_until(lambda: other.values(b"k") == [b"new"], "compaction of another topic")


def test_more_keys_than_memory_take_more_rounds_and_few_segments_are_left(broker: BrokerProcess) -> None:
    table = Table(broker, file_delete_delay_ms=0)
    rounds_before = metric("highwater_log_compaction_rounds_total")
    keys = [b"k%02d" % number for number in range(60)]
    for number in range(3):
        for key in keys:
            table.put(key, b"%d" % number)
    table.roll()
    segments_before = len(list(table.folder.glob("*.log")))
    wait_until(lambda: [record.key for record in table.records()] == keys, "every key once")
    assert all(table.values(key) == [b"2"] for key in keys[:3])
    assert metric("highwater_log_compaction_rounds_total") - rounds_before >= len(keys) * 220 // MEMORY_BYTES
    for _ in range(6):
        table.put(keys[0], b"3")
    wait_until(lambda: len(list(table.folder.glob("*.log"))) < segments_before // 2, "small segments joined")


def test_what_is_young_waits_for_min_compaction_lag_ms(broker: BrokerProcess) -> None:
    table = Table(broker, min_compaction_lag_ms=HOUR_MS)
    table.put(b"k", b"old")
    table.put(b"k", b"new")
    table.roll()
    a_round_goes_by(broker)
    assert table.values(b"k") == [b"old", b"new"]
    table.alter(min_compaction_lag_ms=0)
    wait_until(lambda: table.values(b"k") == [b"new"], "compaction")


def test_little_news_waits_for_the_dirty_ratio_or_max_compaction_lag_ms(broker: BrokerProcess) -> None:
    table = Table(broker)
    for number in range(6):
        table.put(b"k%d" % number, b"old")
    table.put(b"k0", b"first")
    table.roll()
    wait_until(lambda: table.values(b"k0") == [b"first"], "a first round, in which everything is news")
    table.alter(min_cleanable_dirty_ratio=0.9)
    table.put(b"k0", b"second")
    table.roll()
    a_round_goes_by(broker)
    assert table.values(b"k0") == [b"first", b"second"]
    table.alter(max_compaction_lag_ms=1)
    wait_until(lambda: table.values(b"k0") == [b"second"], "compaction")


def test_a_tombstone_is_there_for_delete_retention_ms(broker: BrokerProcess) -> None:
    table = Table(broker, delete_retention_ms=HOUR_MS)
    table.put(b"gone", b"value")
    table.put(b"gone", None)
    table.roll()
    wait_until(lambda: table.values(b"gone") == [None], "compaction")
    table.roll()
    a_round_goes_by(broker)
    assert table.values(b"gone") == [None], "readers that are behind still have to learn of it"


def test_aborted_records_and_then_their_markers_go(broker: BrokerProcess) -> None:
    table = Table(broker, delete_retention_ms=0)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": table.name})
    producer.init_transactions(PATIENCE_SECONDS)
    for key, is_kept in ((b"aborted", False), (b"committed", True)):
        producer.begin_transaction()
        producer.produce(table.name, b"value", key=key)
        producer.flush(PATIENCE_SECONDS)
        (producer.commit_transaction if is_kept else producer.abort_transaction)(PATIENCE_SECONDS)

    def only_what_was_committed_is_left() -> bool:
        table.roll()
        markers = [marker_of(memoryview(batch)) for header, batch in table.batches() if header.is_control]
        assert table.values(b"committed") == [b"value"]
        return not table.values(b"aborted") and [marker.type for marker in markers if marker] == [MarkerType.COMMIT]

    wait_until(only_what_was_committed_is_left, "the end of an aborted transaction")


def test_a_producer_is_known_although_nothing_that_it_wrote_is_left(broker: BrokerProcess) -> None:
    """An empty batch keeps its sequence: what it sends again after a crash is still not written twice."""
    table = Table(broker)
    batch = a_batch(b"mine", keys=[b"k"], timestamps=[now_ms()], producer_id=77, sequence=0)
    first = table.append(bytearray(batch))
    table.put(b"k", b"theirs")
    table.roll()
    wait_until(lambda: table.values(b"k") == [b"theirs"], "compaction")
    broker.kill()
    for snapshot in table.folder.glob("*.snapshot"):
        snapshot.unlink()
    broker.start()
    again = table.append(bytearray(batch))
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, first.base_offset)
    assert table.values(b"k") == [b"theirs"]


def test_compact_and_delete_together(broker: BrokerProcess) -> None:
    table = Table(broker, cleanup_policy="compact,delete", retention_ms=HOUR_MS // 2)
    for number in range(6):
        table.put(b"old-%d" % number, b"value", age_ms=HOUR_MS)
    for number in range(6):
        table.put(b"k", b"%d" % number)
    table.roll()
    wait_until(lambda: not table.values(b"old-0") and table.values(b"k") == [b"5"], "retention and compaction")


def test_the_pace_of_compaction_can_be_changed_in_the_midst_of_a_round(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    alter(admin, ResourceType.BROKER, "0", log_cleaner_io_max_bytes_per_second=1)
    table = Table(broker)
    table.put(b"k", b"old")
    table.put(b"k", b"new")
    table.roll()
    wait_until(lambda: workers_of(broker) > 0, "a worker")
    for _ in range(20):
        assert table.values(b"k") == [b"old", b"new"], "at a byte a second it takes an hour"
    alter(admin, ResourceType.BROKER, "0", log_cleaner_io_max_bytes_per_second=1e9)
    wait_until(lambda: table.values(b"k") == [b"new"], "compaction")


def test_a_round_whose_segments_go_is_not_the_last(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    alter(admin, ResourceType.BROKER, "0", log_cleaner_io_max_bytes_per_second=500)
    table = Table(broker, cleanup_policy="compact,delete")
    for number in range(30):
        table.put(b"k", b"%d" % number)
    table.roll()
    wait_until(lambda: workers_of(broker) > 0, "a worker")
    first = worker_ids(broker)
    gone = admin.delete_records([TopicPartition(table.name, 0, 24)])
    assert [done.result(PATIENCE_SECONDS).low_watermark for done in gone.values()] == [24]
    wait_until(lambda: worker_ids(broker).isdisjoint(first) and workers_of(broker) > 0, "another worker")
    alter(admin, ResourceType.BROKER, "0", log_cleaner_io_max_bytes_per_second=1e9)
    wait_until(lambda: table.values(b"k") == [b"29"], "compaction")


def worker_ids(broker: BrokerProcess) -> set[str]:
    tasks = Path(f"/proc/{broker.pid}/task").glob("*/children")  # a child is a child of the thread that started it
    return {child for task in tasks for child in task.read_text().split()}


def workers_of(broker: BrokerProcess) -> int:
    return len(worker_ids(broker))


def test_a_log_that_cannot_be_compacted_is_counted(broker: BrokerProcess) -> None:
    table = Table(broker, min_compaction_lag_ms=HOUR_MS)
    table.put(b"k", b"old")
    table.roll()
    first = table.folder / "00000000000000000000.log"
    content = bytearray(first.read_bytes())
    content[100] ^= 1
    first.write_bytes(content)
    table.alter(min_compaction_lag_ms=0)
    wait_until(lambda: metric("highwater_uncleanable_partitions") == 1, "the count")
    assert f"log_cannot_be_compacted partition={table.name}-0" in broker.log_file.read_text()
    a_round_goes_by(broker)
