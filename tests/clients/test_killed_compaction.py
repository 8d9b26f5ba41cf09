"""A broker is killed (kill -9) before each of the renames that put a compacted segment in its place."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.fetch import FetchResponse
from highwater.protocol.messages.produce import ProduceResponse
from highwater.protocol.records.batch import iter_batches
from highwater.protocol.records.record import read_records
from highwater.testing.broker import BrokerProcess
from highwater.testing.failing_disk import MODULE, die_at_rename, repair_disk
from highwater.testing.log_bench import a_batch
from highwater.testing.requests import fetch_request, produce_request
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until
from highwater.testing.wire import ConnectionClosed, WireClient

TOPIC = "prices"
KEYS = 4
RENAMES = 12
"""Three new files, three or more old ones, three final names; and some of the next group."""


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    running = BrokerProcess({"log.cleaner.backoff.ms": 20}, directory=tmp_path, module=MODULE).start()
    configs = {"cleanup.policy": "compact", "segment.bytes": "1000", "min.cleanable.dirty.ratio": "0.01"}
    admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, 1, 1, config=configs)])[TOPIC].result(PATIENCE_SECONDS)
    yield running
    running.remove()


def write(broker: BrokerProcess, numbers: range) -> dict[bytes, bytes]:
    """Write as long as the broker lives; return the newest value of each key that was acknowledged."""
    newest: dict[bytes, bytes] = {}
    try:
        with WireClient(broker.bootstrap_servers) as client:
            for number in numbers:
                key, value = b"k%d" % (number % KEYS), (b"%d" % number).ljust(100)
                answer = client.call(produce_request(TOPIC, a_batch(value, keys=[key])), ProduceResponse, 8)
                assert answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
                newest[key] = value
    except (OSError, ConnectionClosed):
        pass  # the kill came before the last write
    return newest


def read(broker: BrokerProcess) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    offset = 0
    with WireClient(broker.bootstrap_servers) as client:
        while True:
            answer = client.call(fetch_request(TOPIC, offset, max_wait_ms=0), FetchResponse, 11)
            part = answer.responses[0].partitions[0]
            assert part.error_code == ErrorCode.NONE
            view = bytes(part.records) if isinstance(part.records, memoryview) else b""
            headers = list(iter_batches(view))
            if not headers:
                return found
            for position, header in headers:
                assert header.base_offset >= offset, "offsets rise"
                for record in read_records(view[position : position + header.size]):
                    assert record.key is not None
                    assert record.value is not None
                    found[record.key] = record.value
            offset = headers[-1][1].next_offset


def test_every_key_has_its_newest_value_after_a_kill_before_any_rename(broker: BrokerProcess) -> None:
    newest: dict[bytes, bytes] = {}
    for rename in range(1, RENAMES + 1):
        die_at_rename(broker.data_dir / f"{TOPIC}-0", rename)
        newest |= write(broker, range(100 * rename, 100 * rename + 24))
        wait_until(lambda: not broker.is_running, f"the kill before rename {rename}")
        broker.kill()
        repair_disk(broker.data_dir / f"{TOPIC}-0")
        broker.start()
        found = read(broker)
        assert all(int(found[key]) >= int(value) for key, value in newest.items()), "what was acknowledged is there"
        newest = found
    left = {path.name for path in (broker.data_dir / f"{TOPIC}-0").iterdir() if path.suffix == ".swap"}
    assert not left
