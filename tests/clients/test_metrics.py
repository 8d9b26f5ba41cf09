"""Metrics, scraped from a broker that clients have used."""

import re
import socket
import urllib.error
import urllib.request

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from highwater.compiled import building, loading
from highwater.metrics.declared import METRICS
from highwater.testing.plugin import BrokerFactory
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

LINE = re.compile(r'(?P<name>[a-z_]+)(?P<labels>\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? (?P<value>[0-9.e+-]+)')
WHEN_IT_HAPPENS = {"highwater_connections_closed_for_cause_total"}
"""Counted from the first time on."""


def scrape(address: str) -> dict[str, float]:
    """Return every value by its name and labels; every line must be one that Prometheus reads."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE_SECONDS) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        lines = answer.read().decode().splitlines()
    values: dict[str, float] = {}
    for line in lines:
        if not line.startswith("# "):
            match = LINE.fullmatch(line)
            assert match is not None, line
            values[match["name"] + (match["labels"] or "")] = float(match["value"])
    return values


@pytest.fixture
def free_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return f"127.0.0.1:{found.getsockname()[1]}"


def test_what_clients_do_shows_in_the_metrics(start_broker: BrokerFactory, free_address: str) -> None:
    broker = start_broker(metrics_listener=free_address)
    before = scrape(free_address)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for _ in range(100):
        producer.produce("seen", b"x" * 1000)
    producer.flush()
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["seen"])
    assert len(consumer.consume(100, PATIENCE_SECONDS)) == 100
    after = scrape(free_address)
    consumer.close()
    assert after['highwater_log_end_offset{topic="seen",partition="0"}'] == 100
    assert after['highwater_log_size_bytes{topic="seen",partition="0"}'] > 100_000
    assert after['highwater_requests_total{api="Produce"}'] >= 1
    assert after['highwater_request_seconds_count{api="Fetch"}'] >= 1
    assert after['highwater_connections{listener="PLAINTEXT"}'] >= 2
    assert after["highwater_log_appended_bytes_total"] > 100_000
    assert after["highwater_active_controllers"] == 1
    for grows in ("highwater_network_received_bytes_total", "highwater_network_sent_bytes_total"):
        assert after[grows] > before[grows] + 100_000


def test_every_declared_metric_has_a_source(start_broker: BrokerFactory, free_address: str) -> None:
    """A metric on the page of the docs that no broker ever shows would be a lie."""
    broker = start_broker(metrics_listener=free_address)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"})
    consumer.subscribe(["seen"])
    Producer({"bootstrap.servers": broker.bootstrap_servers}).list_topics("seen", timeout=PATIENCE_SECONDS)
    wait_until(lambda: consumer.poll(0.1) is not None or consumer.assignment() != [], "the group has its partitions")
    consumer.commit(offsets=[TopicPartition("seen", 0, 0)], asynchronous=False)
    shown = {re.split(r"_bucket\{|_sum|_count|\{", name)[0] for name in scrape(free_address)}
    consumer.close()
    assert {metric.name for metric in METRICS} - shown - WHEN_IT_HAPPENS == set()


def test_nothing_but_metrics_is_served(start_broker: BrokerFactory, free_address: str) -> None:
    start_broker(metrics_listener=free_address)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(f"http://{free_address}/", timeout=PATIENCE_SECONDS)


def test_a_broker_says_whether_its_hot_path_is_compiled(start_broker: BrokerFactory, free_address: str) -> None:
    """Where there is a C compiler, `make setup` has built it: then every other test here runs on it."""
    start_broker(metrics_listener=free_address)
    assert scrape(free_address)["highwater_compiled"] == loading.is_up_to_date()
    assert loading.is_up_to_date() or building.what_is_missing(), "the sources have changed: run `make compiled`"
