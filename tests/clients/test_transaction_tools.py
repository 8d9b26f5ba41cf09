"""Looking at transactions and ending them by hand: `highwater txn`, and Apache Kafka's own TransactionsCommand."""

import contextlib
import io
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from highwater.cli.commands import run
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.produce import ProduceResponse
from highwater.protocol.records.record import build_batch, numbered
from highwater.testing.broker import BrokerProcess
from highwater.testing.plugin import BrokerFactory
from highwater.testing.requests import produce_request
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until
from highwater.testing.wire import WireClient

Java = Callable[..., str]
LOST_PRODUCER = 4_711
TOOL = "org.apache.kafka.tools.TransactionsCommand"


@pytest.fixture
def broker(start_broker: BrokerFactory) -> BrokerProcess:
    """A broker that does not check whether a transaction is open: one that a late batch has opened hangs."""
    return start_broker({"transaction.partition.verification.enable": False})


@pytest.fixture
def opened(broker: BrokerProcess) -> Iterator[Producer]:
    """A producer with a transaction open in topic `tea`."""
    producer = Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "brewer", "linger.ms": 0, "log_level": 0}
    )
    producer.init_transactions(PATIENCE_SECONDS)
    producer.begin_transaction()
    producer.produce("tea", b"fresh")
    assert producer.flush(PATIENCE_SECONDS) == 0
    yield producer
    with contextlib.suppress(KafkaException):
        producer.abort_transaction(PATIENCE_SECONDS)


@pytest.fixture
def hang(broker: BrokerProcess) -> Callable[[str], None]:
    """Leave a transaction open in a topic of which no coordinator knows."""

    def write(topic: str) -> None:
        first = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        first.produce(topic, b"before")
        assert first.flush(PATIENCE_SECONDS) == 0
        twenty_minutes_ago_ms = int((time.time() - 1_200) * 1000)
        batch = build_batch(
            numbered([(b"key", b"lost")], timestamp_ms=twenty_minutes_ago_ms),
            producer_id=LOST_PRODUCER,
            producer_epoch=3,
            base_sequence=0,
            is_transactional=True,
        )
        request = produce_request(topic, batch, acks=-1)
        request.transactional_id = "nobody"
        with WireClient(broker.bootstrap_servers) as client:
            (answer,) = client.call(request, ProduceResponse, 9).responses
        assert answer.partition_responses[0].error_code == ErrorCode.NONE

    return write


def highwater(broker: BrokerProcess, *arguments: str, code: int = 0) -> Any:
    """Run a `txn` command and return the document that it writes, or what it says when it fails."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        outcome = run(["txn", *arguments, "--json", "--bootstrap", broker.bootstrap_servers])
    assert outcome == code, (arguments, out.getvalue(), err.getvalue())
    return err.getvalue() if code else json.loads(out.getvalue())


def committed_end(broker: BrokerProcess, topic: str) -> int:
    """How far readers of committed records see."""
    config = {"group.id": "unused", "isolation.level": "read_committed", "log_level": 0}
    consumer = Consumer(config | {"bootstrap.servers": broker.bootstrap_servers})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), PATIENCE_SECONDS)[1])
    finally:
        consumer.close()


def test_an_open_transaction_is_listed_described_and_aborted(broker: BrokerProcess, opened: Producer) -> None:
    [listed] = highwater(broker, "list", "--state", "ongoing")
    assert (listed["transactional_id"], listed["state"], listed["coordinator"]) == ("brewer", "Ongoing", 0)
    [described] = highwater(broker, "describe", "brewer")
    assert described["partitions"] == [{"topic": "tea", "partition": 0}]
    assert described["started_at_ms"] > 0
    assert highwater(broker, "find-hanging", "--minutes", "0") == []
    assert highwater(broker, "abort", "brewer", "--yes") == {"aborted": "brewer"}
    with pytest.raises(KafkaException) as fenced:
        opened.commit_transaction(PATIENCE_SECONDS)
    assert fenced.value.args[0].code() == KafkaError._FENCED
    assert highwater(broker, "list", "--state", "Ongoing") == []
    assert "no transaction open" in highwater(broker, "abort", "brewer", "--yes", code=1)


def test_a_hanging_transaction_is_found_and_ended(broker: BrokerProcess, hang: Callable[[str], None]) -> None:
    hang("tea")
    assert committed_end(broker, "tea") == 1
    [found] = highwater(broker, "find-hanging", "--topic", "tea")
    place = (found["topic"], str(found["partition"]), str(found["start_offset"]))
    assert (*place, found["producer_id"]) == ("tea", "0", "1", LOST_PRODUCER)
    assert "since offset 0" in highwater(broker, "abort", "--hanging", "tea", "0", "0", "--yes", code=1)
    assert highwater(broker, "abort", "--hanging", *place, "--yes") == {"aborted": "tea-0@1"}
    assert committed_end(broker, "tea") == 3
    assert highwater(broker, "find-hanging") == []


def test_what_there_is_not_is_told_in_a_line(broker: BrokerProcess, opened: Producer) -> None:
    assert "did you mean 'brewer'" in highwater(broker, "describe", "brewr", code=1)
    assert "not both" in highwater(broker, "abort", code=2)
    assert "no partition 7" in highwater(broker, "abort", "--hanging", "tea", "7", "0", code=1)
    assert opened.list_topics("tea", PATIENCE_SECONDS).topics["tea"].error is None


def test_kafkas_own_command_lists_describes_finds_and_ends(
    java: Java, broker: BrokerProcess, opened: Producer, hang: Callable[[str], None]
) -> None:
    """`opened` has a transaction that a coordinator knows of, which does not hang."""
    hang("water")

    def command(*arguments: str) -> list[list[str]]:
        """The rows of the table that the command prints, without its header."""
        printed = java(TOOL, "--bootstrap-server", broker.bootstrap_servers, *arguments)
        return [line.split() for line in printed.splitlines()[1:]]

    [listed] = command("list")
    assert (listed[0], listed[3]) == ("brewer", "Ongoing")
    [described] = command("describe", "--transactional-id", "brewer")
    assert (described[1], described[4], described[-1]) == ("brewer", "Ongoing", "tea-0")
    [producer] = command("describe-producers", "--topic", "water", "--partition", "0")
    assert (producer[0], producer[1], producer[-1]) == (str(LOST_PRODUCER), "3", "1")
    [hanging] = command("find-hanging", "--broker-id", "0", "--max-transaction-timeout", "0")
    assert hanging[:3] == ["water", "0", str(LOST_PRODUCER)]
    command("abort", "--topic", "water", "--partition", "0", "--start-offset", "1")
    wait_until(lambda: committed_end(broker, "water") == 3, "readers get past it")
    assert committed_end(broker, "tea") == 0
    opened.commit_transaction(PATIENCE_SECONDS)
