"""Why did it rebalance, and how far is it behind? The log and the metrics say so."""

from __future__ import annotations

import re
import socket
import urllib.request
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from highwater.testing.broker import BrokerProcess
from highwater.testing.group_requests import coordinator_of, enter, rejoin, sync_as_leader
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.usefixtures("start_broker")  # they start their own

TOPIC = "orders"
Watched = tuple[BrokerProcess, "Callable[[str], float]"]


@pytest.fixture
def watched() -> Iterator[Watched]:
    """A broker, and a way to read one of its metrics (0 as long as it is not there)."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        address = f"127.0.0.1:{found.getsockname()[1]}"
    settings = {
        "metrics.listener": address,
        "group.min.session.timeout.ms": 100,
    }

    def read(sample: str) -> float:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE_SECONDS) as answer:
            text = answer.read().decode()
        found = re.search(rf"^{re.escape(sample)} (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0

    with BrokerProcess(settings, log_level="info") as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, 2, 1)])[TOPIC].result(PATIENCE_SECONDS)
        yield broker, read


def test_every_rebalance_has_a_cause_that_is_logged_and_counted(watched: Watched) -> None:
    broker, read = watched

    def count(cause: str) -> float:
        return read(f'highwater_group_rebalances_total{{cause="{cause}"}}')

    def log_says(*words: str) -> bool:
        lines = broker.log_file.read_text().splitlines()
        return any(all(word in line for word in ("group_rebalances", *words)) for line in lines)

    with coordinator_of("tea", [broker.bootstrap_servers]) as wire:
        joined = enter(wire, "tea", session_timeout_ms=300, rebalance_timeout_ms=300, reason="the shop opens")
        assert count("member_joined") == 1
        assert log_says("group=tea", joined.member_id, "the shop opens")
        wait_until(lambda: count("sync_timed_out") + count("session_expired") == 1, "it vanished before it synced")
        patient = enter(wire, "tea", rebalance_timeout_ms=300)
        wait_until(lambda: count("sync_timed_out") == 1, "one that lives, and does not sync")
        assert log_says("sync_timed_out", patient.member_id)
        settled = enter(wire, "tea", session_timeout_ms=300)
        sync_as_leader(wire, "tea", settled)
        silent = count("session_expired")
        wait_until(lambda: count("session_expired") == silent + 1, "its session is over")
        assert log_says("session_expired", settled.member_id)
        settled = enter(wire, "tea")
        sync_as_leader(wire, "tea", settled)
        sync_as_leader(wire, "tea", rejoin(wire, "tea", settled.member_id, metadata=b"other topics"))
        assert count("member_changed") == 1

    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "coffee", "group.protocol": "consumer"}
    )
    with closing(consumer):
        consumer.subscribe([TOPIC])
        wait_until(lambda: consumer.poll(0.05) is None and len(consumer.assignment()) == 2, "all of it")
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_partitions([NewPartitions(TOPIC, 3)])[TOPIC].result(PATIENCE_SECONDS)
        wait_until(lambda: consumer.poll(0.05) is None and len(consumer.assignment()) == 3, "the new one too")
        assert count("topics_changed") == 1
        assert log_says("group=coffee", "topics_changed")
    assert count("member_left") == 1


def test_a_groups_lag_is_a_metric(watched: Watched) -> None:
    broker, read = watched
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(10):
        producer.produce(TOPIC, b"x", partition=1)
    producer.flush(PATIENCE_SECONDS)
    lag = f'highwater_group_lag{{group="tea",topic="{TOPIC}",partition="1"}}'
    with closing(Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "tea"})) as consumer:
        for offset in (4, 10):
            consumer.commit(offsets=[TopicPartition(TOPIC, 1, offset)], asynchronous=False)
            assert read(lag) == 10 - offset
