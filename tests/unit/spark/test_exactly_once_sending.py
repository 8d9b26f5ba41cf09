"""Whatever happens to requests and answers, a partition holds each batch once and in order."""

import time
from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from highwater_spark.errors import BrokerAway, ClusterError
from highwater_spark.exactly_once.brokers import Brokers, Layout, Target
from highwater_spark.exactly_once.connection import Address, Disconnected
from highwater_spark.exactly_once.sending import Sender, SendFailed

TOPIC = "t"
TARGETS = [Target(TOPIC, number) for number in range(3)]
ADDRESSES = [("a", 1), ("b", 2)]
KEPT_BATCHES = 5


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)


@dataclass
class PartitionLog:
    """A partition as a leader keeps it: it takes the next batch, knows the last five, and refuses any other."""

    batches: list[bytes] = field(default_factory=list)

    def append(self, data: bytes) -> int:
        number = int(data[:8])
        if number == len(self.batches):
            self.batches.append(data)
            return ErrorCode.NONE
        if len(self.batches) - KEPT_BATCHES <= number < len(self.batches):
            return ErrorCode.DUPLICATE_SEQUENCE_NUMBER
        return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


@dataclass
class FakeBrokers:
    """Two brokers that fail as they are told: one word for each request that arrives, then all goes well."""

    faults: deque[str] = field(default_factory=deque)
    patience_seconds: float = 5.0
    logs: dict[Target, PartitionLog] = field(default_factory=lambda: {target: PartitionLog() for target in TARGETS})
    moved: int = 0
    lookups: int = 0

    def leader(self, target: Target) -> Address:
        return ADDRESSES[(target.partition + self.moved) % 2]

    def layout(self, topics: Collection[str]) -> Layout:
        assert list(topics) == [TOPIC]
        self.lookups += 1
        return Layout({TOPIC: len(TARGETS)}, {target: self.leader(target) for target in TARGETS})

    def connection(self, address: Address) -> "FakeConnection":
        return self.connections.setdefault(address, FakeConnection(self, address))

    def drop(self, address: Address) -> None:
        self.connections.pop(address, None)

    def __post_init__(self) -> None:
        self.connections: dict[Address, FakeConnection] = {}


class FakeConnection:
    def __init__(self, brokers: FakeBrokers, address: Address) -> None:
        self.brokers = brokers
        self.address = address
        self.answers: deque[ProduceResponse | None] = deque()

    def send(self, request: ProduceRequest, version: int) -> None:
        assert version == 9
        assert request.acks == -1
        fault = self.brokers.faults.popleft() if self.brokers.faults else "none"
        if fault == "refuse connection":
            raise Disconnected("refused")
        codes = []
        for data in request.topic_data[0].partition_data:
            target = Target(TOPIC, data.index)
            assert data.records is not None
            if fault == "lose request":
                code = int(ErrorCode.NONE)
            elif self.brokers.leader(target) != self.address:
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif fault == "too few replicas":
                code = ErrorCode.NOT_ENOUGH_REPLICAS
            else:
                code = self.brokers.logs[target].append(bytes(data.records))
                if fault == "time out" and code == ErrorCode.NONE:
                    code = ErrorCode.REQUEST_TIMED_OUT
                if fault == "too large":
                    code = ErrorCode.MESSAGE_TOO_LARGE
                if fault == "fenced":
                    code = ErrorCode.INVALID_PRODUCER_EPOCH
            codes.append(PartitionProduceResponse(index=data.index, error_code=code))
        lost = fault in {"lose request", "lose answer"}
        answer = ProduceResponse(responses=[TopicProduceResponse(name=TOPIC, partition_responses=codes)])
        self.answers.append(None if lost else answer)
        if fault == "move leaders":
            self.brokers.moved += 1

    def receive(self, response: type[ProduceResponse], version: int) -> ProduceResponse:
        assert (response, version) == (ProduceResponse, 9)
        answer = self.answers.popleft() if self.answers else None
        if answer is None:
            raise Disconnected("lost")
        return answer


def send_all(brokers: FakeBrokers, counts: list[int], size: int = 100) -> None:
    sender = Sender(cast("Brokers", brokers), "id", [TOPIC])
    for number in range(max(counts)):
        for target, count in zip(TARGETS, counts, strict=True):
            if number < count:
                sender.send(target, bytearray(b"%08d" % number + b"x" * size))
    sender.flush()


mild = st.sampled_from(
    ["none", "lose request", "lose answer", "too few replicas", "time out", "move leaders", "refuse connection"]
)


@given(st.lists(mild, max_size=25), st.lists(st.integers(1, 20), min_size=3, max_size=3), st.booleans())
@settings(max_examples=150, deadline=None)
def test_each_batch_is_written_once_and_in_order(faults: list[str], counts: list[int], large: bool) -> None:  # noqa: FBT001
    brokers = FakeBrokers(deque(faults))
    send_all(brokers, counts, size=300_000 if large else 100)
    for target, count in zip(TARGETS, counts, strict=True):
        assert [int(data[:8]) for data in brokers.logs[target].batches] == list(range(count))


def test_what_no_repetition_mends_is_told() -> None:
    with pytest.raises(ClusterError, match="t-0: MESSAGE_TOO_LARGE"):
        send_all(FakeBrokers(deque(["too large"])), [1, 0, 0])


def test_a_transaction_that_is_no_longer_ours_can_be_tried_again() -> None:
    with pytest.raises(SendFailed, match="t-0: INVALID_PRODUCER_EPOCH"):
        send_all(FakeBrokers(deque(["fenced"])), [1, 0, 0])


def test_another_writer_in_our_transaction_is_noticed() -> None:
    brokers = FakeBrokers()
    brokers.logs[TARGETS[0]].batches = [b"%08d" % number for number in range(9)]
    with pytest.raises(SendFailed, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
        send_all(brokers, [1, 0, 0])


def test_patience_has_an_end() -> None:
    brokers = FakeBrokers(deque(["lose request"] * 10_000), patience_seconds=0.05)
    with pytest.raises(BrokerAway, match=r"tried for 0\.05 s"):
        send_all(brokers, [1, 0, 0])
