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
ATTEMPTS = 3
"""Beside somebody else's programs its turn may come all the same, now and then: the kernel shares by sessions first."""
SETTINGS = {"cleanup.policy": "compact", "segment.bytes": "4000000", "min.cleanable.dirty.ratio": "0.01"}


@pytest.fixture
def busy_machine() -> Iterator[None]:
    """Two programs for each processor that want all of it."""
    spinning = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * len(os.sched_getaffinity(0)))
    ]
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
    folder = broker.data_dir / f"{TABLE}-0"
    written = ROUNDS * KEYS * 500

    def size() -> int:
        return bytes_of(folder.glob("*.log"))

    for _ in range(ATTEMPTS):
        for number in range(ROUNDS * KEYS):
            producer.produce(TABLE, os.urandom(500), key=b"%d" % (number % KEYS))
            producer.poll(0)
        assert producer.flush(PATIENCE_SECONDS) == 0
        assert size() > written / 2, "it was written faster than it is compacted"
        wait_until(lambda: size() < written / 2, "half of it was compacted", timeout_seconds=150)
        if "compaction_starves" in broker.log_file.read_text():
            break
    else:
        pytest.fail("it was its turn every time")
