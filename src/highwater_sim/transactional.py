"""Transactional producers: a few batches in several partitions, then a commit or an abort.

By `transaction.version` 1 they say first what they will write to. By version 2 what they write says so, and every
transaction has an epoch of its own (KIP-890): then an EndTxn may also come late, when the next transaction has begun.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from highwater.broker.peer import PeerGone
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from highwater.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from highwater_history.history import ALL, Transaction
from highwater_sim.client import PAUSE_S, TRANSACTION, check
from highwater_sim.producer import Producer

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from highwater_history.history import History, Place
    from highwater_sim.cluster import Cluster

COMMITS: Final = 0.7
COMES_LATE: Final = 0.2
"""How often an end is sent once more, some time later."""
LATE_S: Final = 1.0
PRODUCE_VERSIONS: Final = {1: 11, 2: 12}
END_VERSIONS: Final = {1: 3, 2: 5}
END_ATTEMPTS: Final = 12
AGAIN: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
"""Answers after which the same may be asked again."""


class TransactionalProducer(Producer):
    """One transaction after the other; whatever goes wrong, it begins anew with a new epoch."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        history: History,
        *,
        transactional_id: str,
        transaction_version: int = 1,
        keys: Mapping[Place, Sequence[str]] = MappingProxyType({}),
    ) -> None:
        super().__init__(cluster, name, history, acks=ALL, is_idempotent=True, keys=keys)
        self.transactional_id = transactional_id
        self.transaction_version = transaction_version
        self.produce_version = PRODUCE_VERSIONS[transaction_version]
        self._count = 0
        self._late: set[asyncio.Task[None]] = set()

    async def _whom_to_ask(self) -> int:
        assert self.transactional_id is not None
        return await self.coordinator_of(self.transactional_id, TRANSACTION)

    async def run(self, places: Sequence[Place], *, pause_s: float) -> None:
        """Run transactions for ever."""
        while True:
            await self.rest(pause_s)
            if self.producer_id < 0 and not await self._init():
                continue
            chosen = self.random.sample(list(places), self.random.randint(1, min(3, len(places))))
            await self._transact(self.begin(), chosen)

    def begin(self) -> Transaction:
        """Write down that a transaction begins."""
        self._count += 1
        transaction = Transaction(self.name, self.now, f"{self.name}#{self._count}")
        self.history.add(transaction)
        return transaction

    async def _transact(self, transaction: Transaction, places: list[Place]) -> None:
        epoch = self.producer_epoch
        try:
            await self.add(places)
            sent = [await self.send(place, transaction=transaction.name) for place in places]
            if self.producer_id < 0 or self.producer_epoch != epoch:
                return  # it is over: the next epoch aborts it
            await self.end(transaction, commits=all(sent) and self.random.random() < COMMITS)
        except KafkaError:
            self.producer_id = -1

    async def add(self, places: list[Place]) -> None:
        """Say what the transaction will write to, where that has to be said."""
        if self.transaction_version == 1:
            await self.patiently(lambda: self._add(places))

    async def end(self, transaction: Transaction, *, commits: bool) -> None:
        """Commit or abort, and write down what became of it."""
        transaction.wanted = "commit" if commits else "abort"
        transaction.asked_at = self.now
        await self.patiently(lambda: self._end(commits=commits))
        transaction.outcome, transaction.done_at = "ok", self.now

    async def patiently(self, ask: Callable[[], Awaitable[None]]) -> None:
        """Ask the same again for as long as that may help. KafkaError when it does not."""
        for attempt in range(END_ATTEMPTS):
            try:
                await ask()
            except KafkaError as error:
                if (error.code not in AGAIN and not isinstance(error, PeerGone)) or attempt == END_ATTEMPTS - 1:
                    raise
                await asyncio.sleep(PAUSE_S)
            else:
                return

    async def _add(self, places: list[Place]) -> None:
        topics: dict[str, list[int]] = {}
        for place in places:
            topics.setdefault(place.topic, []).append(place.partition)
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id or "",
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.producer_epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=found) for name, found in topics.items()
            ],
        )
        answer = await self.ask(await self._whom_to_ask(), request, AddPartitionsToTxnResponse, version=3)
        for topic in answer.results_by_topic_v3_and_below:
            for result in topic.results_by_partition:
                check(result.partition_error_code)

    async def _end(self, *, commits: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.transactional_id or "",
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            committed=commits,
        )
        version = END_VERSIONS[self.transaction_version]
        answer = await self.ask(await self._whom_to_ask(), request, EndTxnResponse, version=version)
        check(answer.error_code)
        if self.transaction_version == 1:
            return
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch
        self.sequences.clear()
        if self.random.random() < COMES_LATE:
            request.committed = self.random.random() < 0.5  # it may even be of another mind
            late = asyncio.ensure_future(self._end_late(request))
            self._late.add(late)
            late.add_done_callback(self._late.discard)

    async def _end_late(self, request: EndTxnRequest) -> None:
        """Send an end once more, as a network may that has kept it (KAFKA-17754)."""
        await asyncio.sleep(self.random.uniform(0, LATE_S))
        with suppress(KafkaError):
            await self.ask(await self._whom_to_ask(), request, EndTxnResponse, version=END_VERSIONS[2])
