"""What works beside the broker gives way to everybody; on a machine that is always busy it gets on nevertheless."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.testing.broker import BrokerProcess
from highwater.testing.sizes import bytes_of
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

TABLE = "table"
KEYS = 500
ROUNDS = 240
SETTINGS = {"cleanup.policy": "compact", "segment.bytes": "4000000", "min.cleanable.dirty.ratio": "0.01"}


@pytest.fixture
def busy_machine() -> Iterator[None]:
    """Two programs that want all of it on each processor, and stay there: none is left free for a moment."""
    spinning = []
    for processor in sorted(os.sched_getaffinity(0)):
        for _ in range(2):
            program = f"import os; os.sched_setaffinity(0, [{processor}])\nwhile True: pass"
            spinning.append(subprocess.Popen([sys.executable, "-c", program]))
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


@pytest.mark.usefixtures("busy_machine")
def test_compaction_gets_on_though_it_is_never_its_turn(
    highwater_broker_factory: Callable[..., BrokerProcess],
) -> None:
    broker = highwater_broker_factory(log_cleaner_backoff_ms=200, log_segment_delete_delay_ms=0)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(TABLE, 1, 1, config=SETTINGS)])[TABLE].result(PATIENCE_SECONDS)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 20})
    for number in range(ROUNDS * KEYS):
        producer.produce(TABLE, os.urandom(500), key=b"%d" % (number % KEYS))
        producer.poll(0)
    assert producer.flush(PATIENCE_SECONDS) == 0
    folder = broker.data_dir / f"{TABLE}-0"
    written = ROUNDS * KEYS * 500

    def size() -> int:
        return bytes_of(folder.glob("*.log"))

    assert size() > written / 2, "it was written faster than it is compacted"
    wait_until(lambda: size() < written / 2, "half of it was compacted", timeout_seconds=150)
    assert "compaction_starves" in broker.log_file.read_text()
