"""Producers: with all kinds of acks, with and without idempotence."""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from highwater.broker.peer import PeerGone
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from highwater.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from highwater.protocol.records.record import build_batch, numbered
from highwater_history.history import ALL, Send
from highwater_sim.client import PAUSE_S, Client, check

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from highwater_history.history import History, Place
    from highwater_sim.cluster import Cluster

PRODUCE_VERSION: Final = 11
ATTEMPTS: Final = 8
TRANSACTION_TIMEOUT_MS: Final = 5000
REFUSED: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NOT_ENOUGH_REPLICAS})
"""Answers that say that nothing was written, if they come to the first attempt."""
RETRIABLE: Final = REFUSED | {
    ErrorCode.NOT_LEADER_OR_FOLLOWER,  # perhaps written before it led no more
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.KAFKA_STORAGE_ERROR,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}


class Producer(Client):
    """Sends numbered values, each once; retries only if idempotence makes that safe."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        history: History,
        *,
        acks: int = ALL,
        is_idempotent: bool = False,
        keys: Mapping[Place, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        """`keys`: what is sent to these partitions has one of their keys."""
        super().__init__(cluster, name, history)
        self._acks = acks
        self._is_idempotent = is_idempotent
        self._keys = keys
        self._next_value = 0
        self.producer_id = -1
        self.producer_epoch = -1
        self.transactional_id: str | None = None
        self.produce_version = PRODUCE_VERSION
        self.sequences: dict[Place, int] = {}

    async def run(self, places: Sequence[Place], *, pause_s: float) -> None:
        """Send for ever: one batch at a time to each partition, to several partitions at once."""
        await asyncio.gather(*(self._send_to(place, pause_s * len(places)) for place in places))

    async def _send_to(self, place: Place, pause_s: float) -> None:
        while True:
            await self.rest(pause_s)
            await self.send(place)

    # One batch ------------------------------------------------------------------------------------------------------

    async def send(self, place: Place, *, transaction: str | None = None, copies: Sequence[str] | None = None) -> bool:
        """Send a batch of a few records, write down what became of it, and return whether it was acknowledged.

        They are copies of other values, or new ones.
        """
        if self._is_idempotent and self.producer_id < 0 and (transaction is not None or not await self._init()):
            return False  # a transaction is over with the producer that began it
        endings = [f"={value}" for value in copies] if copies is not None else [""] * self.random.randint(1, 3)
        sends = [self._next(place, transaction, ending) for ending in endings]
        identity = self.producer_id, self.producer_epoch, self.sequences.get(place, 0)
        if self._is_idempotent:
            self.sequences[place] = identity[2] + len(sends)
        try:
            await self._deliver(place, sends, identity)
        except KafkaError:
            self._gave_up(sends)
        return sends[0].outcome == "ok"

    def _next(self, place: Place, transaction: str | None, ending: str) -> Send:
        self._next_value += 1
        send = Send(
            client=self.name,
            at=self.now,
            place=place,
            value=f"{self.name}.{self._next_value}{ending}",
            acks=self._acks,
            is_idempotent=self._is_idempotent,
            transaction=transaction,
            key=self.random.choice(self._keys[place]) if place in self._keys else None,
        )
        self.history.add(send)
        return send

    async def _deliver(self, place: Place, sends: list[Send], identity: tuple[int, int, int]) -> None:
        for attempt in range(ATTEMPTS if self._is_idempotent else 1):
            may_have_been_written = attempt > 0
            try:
                answer = await self._ask_leader(place, sends, identity)
            except PeerGone:
                self.forget_leader(place)
                may_have_been_written = True
                answer = None
            if answer is None:
                if self._acks == 0:
                    return
            elif answer.error_code == ErrorCode.NONE:
                self._succeeded(sends, answer.base_offset)
                return
            else:
                self._refused(place, sends, ErrorCode(answer.error_code), is_sure=not may_have_been_written)
            await asyncio.sleep(PAUSE_S)
        if self._is_idempotent:
            self.producer_id = -1  # the next batch must not depend on what became of this one

    async def _ask_leader(
        self, place: Place, sends: list[Send], identity: tuple[int, int, int]
    ) -> PartitionProduceResponse | None:
        leader, _ = await self.leader_of(place)
        request = self._request(place, sends, identity)
        if self._acks == 0:
            asking = asyncio.ensure_future(self.ask(leader, request, ProduceResponse, version=self.produce_version))
            asking.add_done_callback(lambda done: done.cancelled() or done.exception())  # whatever became of it
            await asyncio.sleep(0.01)  # there is no answer to wait for
            asking.cancel()
            return None
        answer = await self.ask(leader, request, ProduceResponse, version=self.produce_version)
        return answer.responses[0].partition_responses[0]

    def _request(self, place: Place, sends: list[Send], identity: tuple[int, int, int]) -> ProduceRequest:
        pairs = ((None if send.key is None else send.key.encode(), send.value.encode()) for send in sends)
        records = numbered(pairs, timestamp_ms=self.now_ms())
        if self._is_idempotent:
            batch = build_batch(
                records,
                producer_id=identity[0],
                producer_epoch=identity[1],
                base_sequence=identity[2],
                is_transactional=sends[0].transaction is not None,
            )
        else:
            batch = build_batch(records)
        data = PartitionProduceData(index=place.partition, records=memoryview(batch))
        return ProduceRequest(
            transactional_id=self.transactional_id,
            acks=self._acks,
            timeout_ms=3000,
            topic_data=[TopicProduceData(name=place.topic, partition_data=[data])],
        )

    # Outcomes -------------------------------------------------------------------------------------------------------

    def _succeeded(self, sends: list[Send], base_offset: int) -> None:
        for number, send in enumerate(sends):
            send.outcome, send.done_at = "ok", self.now
            send.offset = base_offset + number if base_offset >= 0 else -1

    def _refused(self, place: Place, sends: list[Send], code: ErrorCode, *, is_sure: bool) -> None:
        self.forget_leader(place)
        if code not in RETRIABLE:
            raise KafkaError(f"{place} answers {code.name}", code=code)
        if not self._is_idempotent and is_sure and code in REFUSED:
            for send in sends:
                send.outcome, send.done_at = "failed", self.now

    def _gave_up(self, sends: list[Send]) -> None:
        for send in sends:
            send.done_at = self.now
        self.producer_id = -1

    async def _whom_to_ask(self) -> int:
        return self.any_broker()

    async def _init(self) -> bool:
        """Get a new producer id, as a producer does that starts anew."""
        request = InitProducerIdRequest(
            transactional_id=self.transactional_id, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS
        )
        try:
            answer = await self.ask(await self._whom_to_ask(), request, InitProducerIdResponse, version=4)
            check(answer.error_code)
        except KafkaError:
            await asyncio.sleep(PAUSE_S)
            return False
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()
        return True
