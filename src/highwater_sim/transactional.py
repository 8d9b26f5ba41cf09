"""Transactional producers: a few batches in several partitions, then a commit or an abort."""

from __future__ import annotations

import asyncio
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
    from collections.abc import Awaitable, Callable, Sequence

    from highwater_history.history import History, Place
    from highwater_sim.cluster import Cluster

COMMITS: Final = 0.7
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

    def __init__(self, cluster: Cluster, name: str, history: History, *, transactional_id: str) -> None:
        super().__init__(cluster, name, history, acks=ALL, is_idempotent=True)
        self.transactional_id = transactional_id
        self._count = 0

    async def _whom_to_ask(self) -> int:
        assert self.transactional_id is not None
        return await self.coordinator_of(self.transactional_id, TRANSACTION)

    async def run(self, places: Sequence[Place], *, pause_s: float) -> None:
        """Run transactions for ever."""
        while True:
            await self.rest(pause_s)
            if self.producer_id < 0 and not await self._init():
                continue
            self._count += 1
            chosen = self.random.sample(list(places), self.random.randint(1, min(3, len(places))))
            await self._transact(Transaction(self.name, self.now, f"{self.name}#{self._count}"), chosen)

    async def _transact(self, transaction: Transaction, places: list[Place]) -> None:
        self.history.add(transaction)
        epoch = self.producer_epoch
        try:
            await self._patiently(lambda: self._add(places))
            sent = [await self.send(place, transaction=transaction.name) for place in places]
            if self.producer_id < 0 or self.producer_epoch != epoch:
                return  # it is over: the next epoch aborts it
            commits = all(sent) and self.random.random() < COMMITS
            transaction.wanted = "commit" if commits else "abort"
            transaction.asked_at = self.now
            await self._patiently(lambda: self._end(commits=commits))
        except KafkaError:
            self.producer_id = -1
            return
        transaction.outcome, transaction.done_at = "ok", self.now

    async def _patiently(self, ask: Callable[[], Awaitable[None]]) -> None:
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
        answer = await self.ask(await self._whom_to_ask(), request, EndTxnResponse, version=3)
        check(answer.error_code)
