"""Transactions of the Java client, in both versions of them, and of Kafka Streams: exactly once, whatever is killed."""

import re
import subprocess
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.model.coordinator_partition import partition_for
from highwater.model.ids import ProducerId
from highwater.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from highwater.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from highwater.testing.broker import BrokerProcess
from highwater.testing.plugin import BrokerFactory
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until
from highwater.testing.wire import WireClient
from highwater.transactions import records
from highwater.transactions.states import State
from highwater.transactions.transaction import MAX_EPOCH, Transaction
from highwater.transactions.transaction import Producer as ProducerOfId

Java = Callable[..., str]
PROGRAMS = Path(__file__).parent / "java"
RECORDS = 200
PARTITIONS = 2
STATE_PARTITIONS = 5


@pytest.fixture(scope="module")
def consume_transform_produce(java_program: Callable[..., list[str]]) -> list[str]:
    return java_program(PROGRAMS / "ConsumeTransformProduce.java", "kafka")


@pytest.fixture(scope="module")
def word_count(java_program: Callable[..., list[str]]) -> list[str]:
    return java_program(PROGRAMS / "WordCount.java", "kafka", "streams")


@pytest.fixture
def broker(start_broker: BrokerFactory) -> BrokerProcess:
    return start_broker(
        {
            "transaction.state.log.num.partitions": STATE_PARTITIONS,
            "offsets.topic.num.partitions": 3,
            "group.min.session.timeout.ms": 500,
        }
    )


def create(broker: BrokerProcess, *names: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for made in admin.create_topics([NewTopic(name, partitions, 1) for name in names]).values():
        made.result(PATIENCE_SECONDS)


def fill(broker: BrokerProcess, topic: str, texts: list[str]) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for text in texts:
        producer.produce(topic, text.encode())
    assert producer.flush(PATIENCE_SECONDS) == 0


def committed(broker: BrokerProcess, topic: str, partition: int) -> list[tuple[str, str]]:
    """Every key and value of a partition that readers of committed records see by now."""
    config = {"group.id": "unused", "isolation.level": "read_committed", "enable.partition.eof": True, "log_level": 0}
    found = []
    with closing(Consumer(config | {"bootstrap.servers": broker.bootstrap_servers})) as consumer:
        consumer.assign([TopicPartition(topic, partition, 0)])
        while (record := consumer.poll(PATIENCE_SECONDS)) is not None:
            error = record.error()
            if error is None:
                value = record.value()
                assert value is not None
                found.append(((record.key() or b"").decode(), value.decode()))
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
    raise AssertionError("neither a record nor the end")


def described(broker: BrokerProcess, transactional_id: str) -> TransactionState:
    with WireClient(broker.bootstrap_servers) as client:
        request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
        (found,) = client.call(request, DescribeTransactionsResponse, 0).transaction_states
    return found


@contextmanager
def running(command: list[str], *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("version", [1, 2])
def test_consume_transform_produce_while_the_broker_is_killed(
    java: Java, consume_transform_produce: list[str], broker: BrokerProcess, version: int
) -> None:
    if version == 1:
        server = ("--bootstrap-server", broker.bootstrap_servers)
        tool = "org.apache.kafka.tools.FeatureCommand"
        java(tool, *server, "downgrade", "--feature", "transaction.version=1")
        assert re.search(r"transaction\.version\s.*FinalizedVersionLevel: 1\s", java(tool, *server, "describe"))
    create(broker, "source")
    create(broker, "target", partitions=PARTITIONS)
    fill(broker, "source", [str(number) for number in range(RECORDS)])
    arguments = ("word", "group", "source", str(RECORDS), "target", str(PARTITIONS))
    with running(consume_transform_produce, broker.bootstrap_servers, *arguments) as process:
        for share in (0.2, 0.6):
            wait_until(lambda: len(committed(broker, "target", 0)) > share * RECORDS, "some of it is done")  # noqa: B023
            broker.kill()
            broker.start()
        output, _ = process.communicate(timeout=2 * PATIENCE_SECONDS)
    assert output.splitlines()[-1] == "done", output
    expected = [f"{number}!" for number in range(RECORDS)]
    for partition in range(PARTITIONS):
        assert [value for _, value in committed(broker, "target", partition)] == expected
    assert (described(broker, "word").producer_epoch > RECORDS // 7) == (version == 2)


def test_a_pipelining_producer_keeps_its_batches_in_order_from_one_transaction_to_the_next(
    java: Java, broker: BrokerProcess
) -> None:
    """The second batch of a transaction waited for the coordinator, and the third overtook it."""
    create(broker, "fast", partitions=3)
    report = java(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", "fast", "--num-records", "30000", "--record-size", "1000", "--throughput", "-1"),
        *("--transactional-id", "fast", "--transaction-duration-ms", "30"),
        *("--producer-props", f"bootstrap.servers={broker.bootstrap_servers}"),
    )
    assert report.startswith("30000 records sent"), report
    assert sum(len(committed(broker, "fast", partition)) for partition in range(3)) == 30_000


@pytest.mark.parametrize("epoch", [MAX_EPOCH - 2, MAX_EPOCH - 1])
def test_epochs_run_out_and_the_next_producer_id_goes_on(
    consume_transform_produce: list[str], broker: BrokerProcess, epoch: int
) -> None:
    """The last epoch of an id, 32767, is only ever in a marker; a client gets at most 32766."""
    create(broker, "source")
    create(broker, "target", partitions=PARTITIONS)
    fill(broker, "source", [str(number) for number in range(30)])
    used_up = Transaction("worn", ProducerOfId(ProducerId(7_000), epoch), State.COMPLETE_COMMIT, 60_000, 1)
    key, value = records.encode("worn", used_up)
    with WireClient(broker.bootstrap_servers) as client:  # which makes the topic
        client.call(FindCoordinatorRequest(key="worn", key_type=1), FindCoordinatorResponse, 3)
    writer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "__admin_client", "log_level": 0})
    writer.produce("__transaction_state", value, key, partition=partition_for("worn", STATE_PARTITIONS))
    assert writer.flush(PATIENCE_SECONDS) == 0
    broker.kill()
    broker.start()
    done = subprocess.run(
        [*consume_transform_produce, broker.bootstrap_servers, "worn", "group", "source", "30", "target", "2"],
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE_SECONDS,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == "done", done.stdout
    for partition in range(PARTITIONS):
        assert [value for _, value in committed(broker, "target", partition)] == [f"{number}!" for number in range(30)]
    found = described(broker, "worn")
    assert found.producer_id != 7_000
    assert 0 < found.producer_epoch < 30


def test_a_streams_word_count_is_killed_and_counts_every_word_once(
    word_count: list[str], broker: BrokerProcess, tmp_path: Path
) -> None:
    create(broker, "lines", "counts", partitions=PARTITIONS)
    words = ("tea", "water", "leaf", "pot")
    lines = [" ".join(words[: number % 4 + 1]) for number in range(RECORDS)]
    arguments = (broker.bootstrap_servers, f"count-{uuid.uuid4().hex[:8]}", str(tmp_path), "lines", "counts")
    for start in range(0, RECORDS, RECORDS // 2):
        with running(word_count, *arguments) as process:
            before = len(counted(broker))
            fill(broker, "lines", lines[start : start + RECORDS // 2])
            wait_until(lambda: len(counted(broker)) > before or process.poll() is not None, "some words are counted")  # noqa: B023
            assert process.poll() is None, process.communicate()[0]
            # It is killed here, with a transaction open and more to do.
    with running(word_count, *arguments):
        total = sum(len(line.split()) for line in lines)
        wait_until(lambda: len(counted(broker)) >= total, "all words are counted")
    by_word: dict[str, list[int]] = defaultdict(list)
    for word, count in counted(broker):
        by_word[word].append(int(count))
    assert by_word == {word: list(range(1, sum(word in line for line in lines) + 1)) for word in words}


def counted(broker: BrokerProcess) -> list[tuple[str, str]]:
    return [each for partition in range(PARTITIONS) for each in committed(broker, "counts", partition)]
