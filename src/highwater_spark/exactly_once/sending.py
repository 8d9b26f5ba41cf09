"""Sending batches to the leaders of their partitions: several requests under way, order kept, leaders followed.

Batches of one partition carry sequence numbers, so a leader takes each once and in order, however often it is sent.
When something goes wrong with one, those of the same partition that were under way behind it are refused as out of
order; all of them wait for what is still under way to come back, and are then sent again from the first.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from highwater_spark.errors import ClusterError
from highwater_spark.exactly_once.brokers import Brokers, Target, name_of
from highwater_spark.exactly_once.connection import Address, Disconnected
from highwater_spark.exactly_once.patience import Patience
from highwater_spark.exactly_once.transaction import LOST_CODES

PRODUCE_VERSION: Final = 9
REQUEST_TIMEOUT_MS: Final = 25_000  # below that of the connection, so that the broker is the one to say it
MOST_UNDER_WAY: Final = 4  # brokers remember the last five batches of a producer to recognise what is sent again
REQUEST_BYTES: Final = 1 << 20
MOST_WAITING_BYTES: Final = 8 << 20

_WRITTEN: Final = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
_LATER: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)


class SendFailed(Exception):
    """A batch cannot be written in this transaction; in another one it may be."""


@dataclass(frozen=True, slots=True)
class SentBatch:
    """A batch on its way to a partition."""

    target: Target
    data: bytearray


class Sender:
    """Sends the batches of one task."""

    def __init__(self, brokers: Brokers, transactional_id: str, topics: Iterable[str]) -> None:
        self._brokers = brokers
        self._transactional_id = transactional_id
        self._topics = tuple(topics)
        self._leaders: dict[Target, Address] = {}
        self._waiting: dict[Target, deque[SentBatch]] = {}
        self._waiting_bytes = 0
        self._under_way: dict[Address, deque[list[SentBatch]]] = {}
        self._lost: set[Address] = set()  # connections that broke, until what was under way on them is taken back
        self._patience = Patience(brokers.patience_seconds)

    def send(self, target: Target, data: bytearray) -> None:
        """Take a batch over and send it soon; returns when not too much is waiting."""
        self._waiting.setdefault(target, deque()).append(SentBatch(target, data))
        self._waiting_bytes += len(data)
        if self._waiting_bytes >= REQUEST_BYTES:
            self._fill()  # leaders write what is there while the rest is being encoded
        while self._waiting_bytes > MOST_WAITING_BYTES:
            self._turn()

    def flush(self) -> None:
        """Return when every batch is acknowledged."""
        while self._waiting or self._under_way:
            self._turn()

    def _turn(self) -> None:
        """Send what may be sent, then take in one answer of each leader."""
        trouble: str | None = None
        for address in self._fill():
            trouble = self._receive(address) or trouble
        if trouble is None:
            self._patience = Patience(self._brokers.patience_seconds)
            return
        # Leaders are looked up anew only when nothing is under way: a batch must not reach the new leader of its
        # partition before those ahead of it have come back from the old one.
        while self._under_way:
            for address in list(self._under_way):
                self._receive(address)
        self._patience.wait(trouble)
        self._leaders = {}

    def _fill(self) -> list[Address]:
        """Fill the pipeline of each leader; return those with something under way."""
        if not self._under_way and any(target not in self._leaders for target in self._waiting):
            self._find_leaders()
        for address in {self._leaders[target] for target in self._waiting if target in self._leaders} - self._lost:
            pipeline = self._under_way.setdefault(address, deque())
            while len(pipeline) < MOST_UNDER_WAY and (batches := self._next_request(address)):
                pipeline.append(batches)
                try:
                    self._brokers.connection(address).send(self._request(batches), PRODUCE_VERSION)
                except Disconnected:
                    self._brokers.drop(address)  # the answers will not come: `_receive` finds that out
                    self._lost.add(address)
                    break
        return list(self._under_way)

    def _find_leaders(self) -> None:
        """Find the leaders; a partition without one is tried again, and its batches wait."""
        try:
            self._leaders = self._brokers.layout(self._topics).leaders
        except Disconnected as error:
            self._patience.wait(str(error))
        leaderless = [target for target in self._waiting if target not in self._leaders]
        if leaderless:
            self._patience.wait(f"{leaderless[0].topic}-{leaderless[0].partition} has no leader")

    def _next_request(self, leader: Address) -> list[SentBatch]:
        """Take the next batch of each partition of a leader, as far as they fit one request."""
        chosen: list[SentBatch] = []
        size = 0
        for target in list(self._waiting):
            batches = self._waiting[target]
            if self._leaders.get(target) != leader or (chosen and size + len(batches[0].data) > REQUEST_BYTES):
                continue
            batch = batches.popleft()
            if not batches:
                del self._waiting[target]
            chosen.append(batch)
            size += len(batch.data)
            self._waiting_bytes -= len(batch.data)
        return chosen

    def _request(self, batches: list[SentBatch]) -> ProduceRequest:
        topics: dict[str, list[PartitionProduceData]] = {}
        for batch in batches:
            data = PartitionProduceData(index=batch.target.partition, records=memoryview(batch.data))
            topics.setdefault(batch.target.topic, []).append(data)
        return ProduceRequest(
            transactional_id=self._transactional_id,
            acks=-1,
            timeout_ms=REQUEST_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=name, partition_data=data) for name, data in topics.items()],
        )

    def _receive(self, address: Address) -> str | None:
        """Take in the oldest answer of a leader; after trouble, all of them. Return what the trouble was."""
        pipeline = self._under_way[address]
        back: list[SentBatch] = []
        trouble: str | None = None
        while pipeline:
            batches = pipeline.popleft()
            try:
                codes = self._answer(address)
            except Disconnected as error:
                trouble = str(error)
                self._brokers.drop(address)
                self._lost.discard(address)
                back += [batch for waiting in (batches, *pipeline) for batch in waiting]
                pipeline.clear()
                break
            for batch in batches:
                code = codes.get(batch.target, ErrorCode.UNKNOWN_SERVER_ERROR)
                if code in _WRITTEN:
                    continue
                self._check(batch, code, follows=any(earlier.target == batch.target for earlier in back))
                trouble = f"{batch.target.topic}-{batch.target.partition}: {name_of(code)}"
                back.append(batch)
            if trouble is None:
                break
        if not pipeline:
            del self._under_way[address]
        for batch in reversed(back):
            self._waiting.setdefault(batch.target, deque()).appendleft(batch)
            self._waiting_bytes += len(batch.data)
        return trouble

    def _answer(self, address: Address) -> dict[Target, int]:
        answer = self._brokers.connection(address).receive(ProduceResponse, PRODUCE_VERSION)
        return {
            Target(topic.name, partition.index): partition.error_code
            for topic in answer.responses
            for partition in topic.partition_responses
        }

    @staticmethod
    def _check(batch: SentBatch, code: int, *, follows: bool) -> None:
        """Raise for a refusal that sending again in this transaction does not change."""
        what = f"{batch.target.topic}-{batch.target.partition}: {name_of(code)}"
        if code in _LATER or (code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and follows):
            return
        if code in LOST_CODES or code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            raise SendFailed(what)
        raise ClusterError(what)
