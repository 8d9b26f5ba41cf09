"""Lines about transactions: how many a second, how long a commit takes, and what they cost a busy producer."""

import re
import select
import socket
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

from benchmarks.brokers import Broker, BrokerFailed
from benchmarks.measuring import Arena, Metric, Target
from benchmarks.process_stats import cpu_seconds
from benchmarks.raw_clients import CPU_PER_MEGABYTE, MEGABYTE
from benchmarks.real_clients import PARTITIONS, RECORDS_PER_SECOND, ClientFailed, java_tool
from benchmarks.topics import scratch_topic
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from highwater.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from highwater.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from highwater.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from highwater.protocol.records.record import build_batch, numbered
from highwater.testing.wire import WireClient

MANY_PRODUCERS: Final = 16
MANY_PARTITIONS: Final = 10
FIXED_RATE: Final = 200
"""Transactions a second, over all producers: a fraction of what either broker can do."""
VALUE: Final = b"x" * 100
TRANSACTION_MS: Final = 100
RECORD_BYTES: Final = 1_000
ALL_IN_SYNC: Final = -1
PRODUCE_VERSION: Final = 12
END_VERSION: Final = 5
ASK_AGAIN_SECONDS: Final = 0.001
TIMEOUT_SECONDS: Final = 60.0
TRANSACTIONS_PER_SECOND: Final = "transactions/s"
COMMIT_P99: Final = "p99 of commit"
NOT_READY: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
"""The markers of the transaction before are still on their way, or the coordinator is."""


def one_partition(arena: Arena) -> list[Metric]:
    """One producer, one transaction after the other, one partition in each."""
    return _one_by_one(arena, 1)


def ten_partitions(arena: Arena) -> list[Metric]:
    """One producer, one transaction after the other, ten partitions in each."""
    return _one_by_one(arena, MANY_PARTITIONS)


def many_producers(arena: Arena) -> list[Metric]:
    """Sixteen producers at the same time, one partition in each transaction."""
    metrics = [Metric(TRANSACTIONS_PER_SECOND, "/s", Target(at_least=1.0))]

    def measure(broker: Broker) -> Mapping[str, float]:
        with scratch_topic(broker, MANY_PRODUCERS) as topic, ExitStack() as stack:
            producers = [stack.enter_context(a_producer(broker, topic, [number])) for number in range(MANY_PRODUCERS)]
            count, seconds, _ = _measured(arena, producers)
            return {TRANSACTIONS_PER_SECOND: count / seconds}

    return arena.alternate(metrics, measure)


def fixed_rate(arena: Arena) -> list[Metric]:
    """Sixteen producers, ten partitions in each transaction, as many a second for both brokers."""
    metrics = [
        Metric("p50 of commit", "ms", Target()),
        Metric(COMMIT_P99, "ms", Target(at_most=1.0)),
        Metric("p99 of transaction", "ms", Target()),
    ]

    def measure(broker: Broker) -> Mapping[str, float]:
        with scratch_topic(broker, MANY_PARTITIONS) as topic, ExitStack() as stack:
            partitions = list(range(MANY_PARTITIONS))
            producers = [stack.enter_context(a_producer(broker, topic, partitions)) for _ in range(MANY_PRODUCERS)]
            _run_on_schedule(producers, arena.effort.warm_up_seconds)
            commits, transactions = _run_on_schedule(producers, arena.effort.seconds)
        return {
            "p50 of commit": _percentile(commits, 50) * 1e3,
            COMMIT_P99: _percentile(commits, 99) * 1e3,
            "p99 of transaction": _percentile(transactions, 99) * 1e3,
        }

    return arena.alternate(metrics, measure)


def _percentile(values: list[float], percent: int) -> float:
    return sorted(values)[len(values) * percent // 100]


def _run_on_schedule(producers: list["RawProducer"], seconds: float) -> tuple[list[float], list[float]]:
    """Begin a transaction whenever one is due, each producer in turn; return how long commits and transactions took.

    A transaction counts from when it was due, a commit from when it was sent.
    """
    commits: list[float] = []
    transactions: list[float] = []
    busy: dict[socket.socket, tuple[RawProducer, float, float]] = {}
    """Who waits for an answer: since when its transaction was due, and when it asked for the commit (0: not yet)."""
    started = time.perf_counter()
    total = int(seconds * FIXED_RATE)
    begun = 0
    while begun < total or busy:
        now, wait = time.perf_counter(), TIMEOUT_SECONDS
        while begun < total:
            due = started + begun / FIXED_RATE
            producer = producers[begun % len(producers)]
            if due > now:
                wait = due - now
                break
            if producer.socket in busy:
                break  # It is late with the one before, and this one counts from when it was due.
            producer.send_records()
            busy[producer.socket] = producer, due, 0.0
            begun += 1
        ready, _, _ = select.select(busy, [], [], wait)
        for each in ready:
            producer, due, asked_at = busy.pop(each)
            if asked_at:
                producer.await_end()
                now = time.perf_counter()
                commits.append(now - asked_at)
                transactions.append(now - due)
            else:
                producer.await_records()
                busy[each] = producer, due, time.perf_counter()
                producer.send_end()
    return commits, transactions


def _one_by_one(arena: Arena, partitions: int) -> list[Metric]:
    metrics = [
        Metric(TRANSACTIONS_PER_SECOND, "/s", Target(at_least=1.0)),
        Metric(COMMIT_P99, "ms", Target(at_most=1.0)),
    ]

    def measure(broker: Broker) -> Mapping[str, float]:
        with (
            scratch_topic(broker, partitions) as topic,
            a_producer(broker, topic, list(range(partitions))) as producer,
        ):
            count, seconds, commits = _measured(arena, [producer])
        return {TRANSACTIONS_PER_SECOND: count / seconds, COMMIT_P99: _percentile(commits, 99) * 1e3}

    return arena.alternate(metrics, measure)


def _measured(arena: Arena, producers: list["RawProducer"]) -> tuple[int, float, list[float]]:
    """Return how many transactions were committed in how many seconds, and how long each commit took."""
    _run(producers, arena.effort.warm_up_seconds)
    started = time.perf_counter()
    commits = _run(producers, arena.effort.seconds)
    return len(commits), time.perf_counter() - started, commits


def _run(producers: list["RawProducer"], seconds: float) -> list[float]:
    """Have all producers write, then all commit, over and over; return how long each commit took."""
    commits: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for producer in producers:
            producer.send_records()
        for producer in producers:
            producer.await_records()
        started = time.perf_counter()
        for producer in producers:
            producer.send_end()
        for producer in producers:
            producer.await_end()
            commits.append(time.perf_counter() - started)
    return commits


class RawProducer:
    """A transactional producer on a bare connection, which works as clients do with `transaction.version` 2."""

    def __init__(self, client: WireClient, topic: str, partitions: list[int]) -> None:
        self._client = client
        self._topic = topic
        self._partitions = partitions
        self._transactional_id = f"bench-{uuid.uuid4().hex[:8]}"
        self._id, self._epoch = self._init()
        self._sent = 0

    @property
    def socket(self) -> socket.socket:
        """Where answers come."""
        return self._client.socket

    def _init(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=self._transactional_id, transaction_timeout_ms=60_000)
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            find = FindCoordinatorRequest(key=self._transactional_id, key_type=1)
            self._client.call(find, FindCoordinatorResponse, 3)
            answer = self._client.call(request, InitProducerIdResponse, 4)
            if not answer.error_code:
                return answer.producer_id, answer.producer_epoch
            _check_not_ready(answer.error_code, deadline)

    def send_records(self) -> None:
        """Send a record to each partition."""
        batch = build_batch(
            numbered([(b"key", VALUE)], timestamp_ms=int(time.time() * 1000)),
            producer_id=self._id,
            producer_epoch=self._epoch,
            base_sequence=0,
            is_transactional=True,
        )
        data = [PartitionProduceData(index=index, records=memoryview(batch)) for index in self._partitions]
        request = ProduceRequest(
            transactional_id=self._transactional_id,
            acks=ALL_IN_SYNC,
            timeout_ms=30_000,
            topic_data=[TopicProduceData(name=self._topic, partition_data=data)],
        )
        self._sent = self._client.send(request, PRODUCE_VERSION)

    def await_records(self) -> None:
        """Wait until they are acknowledged; send them again as long as the transaction before is not complete."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            answer = self._client.receive(ProduceResponse, PRODUCE_VERSION, self._sent)
            codes = [each.error_code for topic in answer.responses for each in topic.partition_responses]
            if not any(codes):
                return
            _check_not_ready(max(codes), deadline)
            self.send_records()

    def send_end(self) -> None:
        """Ask for the commit."""
        request = EndTxnRequest(
            transactional_id=self._transactional_id, producer_id=self._id, producer_epoch=self._epoch, committed=True
        )
        self._sent = self._client.send(request, END_VERSION)

    def await_end(self) -> None:
        """Wait until the commit is acknowledged."""
        answer = self._client.receive(EndTxnResponse, END_VERSION, self._sent)
        if answer.error_code:
            raise BrokerFailed(f"a commit was refused: {ErrorCode(answer.error_code).name}")
        self._id, self._epoch = answer.producer_id, answer.producer_epoch


def _check_not_ready(error_code: int, deadline: float) -> None:
    code = ErrorCode(error_code)
    if code not in NOT_READY or time.monotonic() > deadline:
        raise BrokerFailed(f"a transaction was refused: {code.name}")
    time.sleep(ASK_AGAIN_SECONDS)


@contextmanager
def a_producer(broker: Broker, topic: str, partitions: list[int]) -> Iterator[RawProducer]:
    """Make a producer for some partitions of a topic."""
    with WireClient(broker.bootstrap, timeout_seconds=TIMEOUT_SECONDS) as client:
        yield RawProducer(client, topic, partitions)


def throughput_java(arena: Arena) -> list[Metric]:
    """Kafka's ProducerPerformance with records of 1,000 bytes, and a commit every 100 ms."""
    metrics = [
        Metric(RECORDS_PER_SECOND, "/s", Target(at_least=1.2)),
        Metric(CPU_PER_MEGABYTE, "ms", Target()),
        Metric("broker's part of a core", "%", Target()),
    ]
    records = arena.effort.scaled(600_000)

    def measure(broker: Broker) -> Mapping[str, float]:
        with scratch_topic(broker, PARTITIONS) as topic:
            cpu_before = cpu_seconds(broker.pid)
            report = java_tool(
                "org.apache.kafka.tools.ProducerPerformance",
                *(
                    "--topic",
                    topic,
                    "--num-records",
                    str(records),
                    "--record-size",
                    str(RECORD_BYTES),
                    "--throughput",
                    "-1",
                ),
                *("--transactional-id", topic, "--transaction-duration-ms", str(TRANSACTION_MS)),
                *("--producer-props", f"bootstrap.servers={broker.bootstrap}"),
            )
            cpu = cpu_seconds(broker.pid) - cpu_before
        summary = report.splitlines()[-1]
        found = re.match(r"(\d+) records sent, ([\d.]+) records/sec", summary)
        if found is None or int(found[1]) != records:
            raise ClientFailed(f"not all {records} records were sent: {summary}")
        rate = float(found[2])
        return {
            RECORDS_PER_SECOND: rate,
            CPU_PER_MEGABYTE: cpu / (records * RECORD_BYTES) * MEGABYTE * 1e3,
            "broker's part of a core": cpu / (records / rate) * 100,
        }

    return arena.alternate(metrics, measure)
