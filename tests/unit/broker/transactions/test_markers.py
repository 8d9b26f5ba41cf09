"""The end of a transaction on its way to the partitions: sent, sent again, given up."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, cast

import pytest

from highwater.broker.marker_router import MarkerRouter
from highwater.broker.marker_sender import ATTEMPT_TIMEOUT_S, MarkerSender
from highwater.broker.marker_writer import TransactionEnd
from highwater.broker.peer import PeerGone
from highwater.broker.peers import Peers
from highwater.broker.topics import PartitionState, Topic, Topics
from highwater.broker.transaction_metrics import TransactionMetrics
from highwater.config.broker_config import BrokerConfig
from highwater.config.topic_settings import TopicSettings
from highwater.metrics.registry import Registry
from highwater.model.errors import ErrorCode
from highwater.model.ids import NO_BROKER, BrokerId, LeaderEpoch, ProducerId, TopicId, TopicPartition
from highwater.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

END = TransactionEnd(ProducerId(7), 3, committed=True, coordinator_epoch=5)
HERE, THERE = BrokerId(1), BrokerId(2)
LEAVES, WATER, POT = (TopicPartition("tea", index) for index in range(3))


def topics_led_by(*leaders: BrokerId) -> Topics:
    """A topic `tea` with one partition for each leader."""
    config = BrokerConfig()
    topics = Topics()
    partitions = [
        PartitionState(replicas=(leader,), leader=leader, leader_epoch=LeaderEpoch(0), isr=(leader,), version=0)
        for leader in leaders
    ]
    topics.put(Topic("tea", TopicId(b"t" * 16), partitions, {}, TopicSettings.resolve(config, {})))
    return topics


class Clock:
    """A loop whose time passes only when it is told to."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self._due: tuple[float, Callable[[], None]] | None = None

    def time(self) -> float:
        return self.now_s

    def call_at(self, when_s: float, call: Callable[[], None]) -> "Clock":
        self._due = when_s, call
        return self

    def cancel(self) -> None:
        self._due = None

    def pass_s(self, seconds: float) -> None:
        self.now_s += seconds
        if self._due is not None and self._due[0] <= self.now_s:
            due, self._due = self._due, None
            due[1]()


class Sending:
    """A sender, what it has written, and whether it is done."""

    def __init__(self, *names: TopicPartition) -> None:
        self.clock = Clock()
        self.metrics = TransactionMetrics(Registry())
        self.looked_for: list[TopicPartition] = []
        self.is_deleted: Callable[[TopicPartition], None] | None = None
        self.written: list[list[TopicPartition]] = []
        self.tell: Callable[[TopicPartition, ErrorCode], None] | None = None
        self.done = 0
        self.sender = MarkerSender(
            END,
            names,
            loop=cast("asyncio.AbstractEventLoop", self.clock),
            writer=self,
            deletions=self,
            metrics=self.metrics,
            done=self._finished,
        )
        self.sender.start()

    def write(
        self, end: TransactionEnd, names: Iterable[TopicPartition], tell: Callable[[TopicPartition, ErrorCode], None]
    ) -> None:
        assert end == END
        self.written.append(list(names))
        self.tell = tell

    def look_for(self, names: Iterable[TopicPartition], tell: Callable[[TopicPartition], None]) -> None:
        self.looked_for = list(names)
        self.is_deleted = tell

    def _finished(self) -> None:
        self.done += 1

    def told(self, name: TopicPartition, code: ErrorCode = ErrorCode.NONE) -> None:
        assert self.tell is not None
        self.tell(name, code)


def test_it_is_done_when_every_partition_has_its_marker() -> None:
    sending = Sending(LEAVES, WATER)
    sending.told(LEAVES)
    assert sending.done == 0
    sending.told(WATER, ErrorCode.INVALID_PRODUCER_EPOCH)  # It has seen a later epoch, and so the end of this one.
    assert sending.done == 1


def test_only_what_failed_is_sent_again_after_a_pause_that_grows() -> None:
    sending = Sending(LEAVES, WATER)
    sending.told(LEAVES, ErrorCode.NOT_LEADER_OR_FOLLOWER)
    sending.clock.pass_s(0.02)
    assert sending.written == [[LEAVES, WATER], [LEAVES]]
    for _ in range(10):
        sending.told(LEAVES, ErrorCode.NETWORK_EXCEPTION)
        sending.clock.pass_s(1.0)
    assert sending.written[2:] == [[LEAVES]] * 10
    sending.told(LEAVES, ErrorCode.NETWORK_EXCEPTION)
    sending.clock.pass_s(0.5)
    assert len(sending.written) == 12


def test_what_nobody_has_confirmed_for_long_is_sent_again() -> None:
    sending = Sending(LEAVES)
    sending.clock.pass_s(ATTEMPT_TIMEOUT_S)
    assert sending.written == [[LEAVES], [LEAVES]]


def test_all_that_failed_at_once_is_sent_again_at_once() -> None:
    """Each partition of a dead leader doubled the pause of the next, and the last of ten waited for a second."""
    sending = Sending(LEAVES, WATER, POT)
    for name in (LEAVES, WATER, POT):
        sending.told(name, ErrorCode.NETWORK_EXCEPTION)
    sending.clock.pass_s(0.02)
    assert sending.written == [[LEAVES, WATER, POT]] * 2
    assert sending.metrics.markers_delayed.value == 3


def test_a_partition_is_given_up_only_when_it_is_known_to_be_deleted() -> None:
    """A topic that a broker has not been told of yet was taken for deleted, and its transaction hung for ever."""
    sending = Sending(LEAVES, WATER)
    for _ in range(60):
        assert sending.tell is not None
        sending.told(LEAVES, ErrorCode.LEADER_NOT_AVAILABLE)
        sending.told(WATER)
        sending.clock.pass_s(1.0)
    assert (sending.sender.left, sending.done) == (frozenset({LEAVES}), 0)
    assert sending.looked_for == [LEAVES]
    assert sending.is_deleted is not None
    sending.is_deleted(LEAVES)
    assert (sending.sender.left, sending.done) == (frozenset(), 1)
    sending.is_deleted(LEAVES)
    assert sending.done == 1, "told twice"


def test_a_coordinator_that_was_replaced_stops() -> None:
    sending = Sending(LEAVES, WATER)
    sending.told(LEAVES, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    sending.told(WATER)
    sending.clock.pass_s(ATTEMPT_TIMEOUT_S)
    assert (sending.done, len(sending.written)) == (0, 1)


class OtherBroker:
    """A broker that answers what it is told to."""

    def __init__(self, answer: WriteTxnMarkersResponse | Exception) -> None:
        self._answer = answer
        self.asked: list[WriteTxnMarkersRequest] = []

    def get(self, broker: BrokerId) -> "OtherBroker":
        assert broker == THERE
        return self

    async def ask(self, request: WriteTxnMarkersRequest, *_: object, version: int) -> WriteTxnMarkersResponse:
        assert version == 1
        self.asked.append(request)
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def answered(*codes: tuple[int, ErrorCode]) -> WriteTxnMarkersResponse:
    results = [WritableTxnMarkerPartitionResult(partition_index=index, error_code=code) for index, code in codes]
    topic = WritableTxnMarkerTopicResult(name="tea", partitions=results)
    return WriteTxnMarkersResponse(markers=[WritableTxnMarkerResult(producer_id=7, topics=[topic])])


class LocalWriter:
    """Writes at once."""

    def __init__(self) -> None:
        self.written: list[TopicPartition] = []

    def write(self, _: TransactionEnd, names: Iterable[TopicPartition], tell: Callable[..., None]) -> None:
        for name in names:
            self.written.append(name)
            tell(name, ErrorCode.NONE)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (answered((1, ErrorCode.NONE)), ErrorCode.NONE),
        (answered((1, ErrorCode.NOT_LEADER_OR_FOLLOWER)), ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (answered(), ErrorCode.UNKNOWN_SERVER_ERROR),
        (PeerGone("it hung up"), ErrorCode.NETWORK_EXCEPTION),
        (WriteTxnMarkersResponse(), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
async def test_every_marker_goes_to_the_leader_of_its_partition(answer: Any, expected: ErrorCode) -> None:
    here, there, told = LocalWriter(), OtherBroker(answer), dict[TopicPartition, ErrorCode]()
    router = MarkerRouter(
        asyncio.get_running_loop(),
        HERE,
        here=here,
        topics=topics_led_by(HERE, THERE, NO_BROKER),
        peers=cast("Peers", there),
    )
    router.write(END, [LEAVES, WATER, POT], told.__setitem__)
    for _ in range(5):
        await asyncio.sleep(0)
    assert here.written == [LEAVES]
    assert told == {LEAVES: ErrorCode.NONE, WATER: expected, POT: ErrorCode.LEADER_NOT_AVAILABLE}
    ((marker,),) = [request.markers for request in there.asked]
    assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 3, 5)
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("tea", [1])]
