"""Consume, transform, produce: every record of one partition is copied to another exactly once, whatever dies.

The position of what was read is committed in the transaction that writes the copies.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from highwater.model.errors import KafkaError
from highwater.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from highwater.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from highwater.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from highwater_sim.client import GROUP, PAUSE_S, Client, check
from highwater_sim.consumer import Consumer
from highwater_sim.transactional import TransactionalProducer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from highwater_history.history import History, Place
    from highwater_sim.cluster import Cluster

RECORDS_AT_ONCE: Final = 5
COMMIT_VERSIONS: Final = {1: 3, 2: 5}


async def committed_position(client: Client, group: str, place: Place) -> int:
    """Return how far a group has read; KafkaError if that cannot be said now."""
    topics = [OffsetFetchRequestTopics(name=place.topic, partition_indexes=[place.partition])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)], require_stable=True)
    coordinator = await client.coordinator_of(group, GROUP)
    answer = await client.ask(coordinator, request, OffsetFetchResponse, version=8)
    check(answer.groups[0].error_code)
    told = answer.groups[0].topics[0].partitions[0]
    check(told.error_code)
    return max(0, told.committed_offset)


class Transformer(TransactionalProducer):
    """Copies `source` to the partition that it is told to write to."""

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        history: History,
        *,
        transactional_id: str,
        transaction_version: int,
        group: str,
        source: Place,
    ) -> None:
        super().__init__(
            cluster, name, history, transactional_id=transactional_id, transaction_version=transaction_version
        )
        self._group = group
        self._source = source
        self._reader = Consumer(cluster, f"{name}-reader", history, only_committed=True)

    async def run(self, places: Sequence[Place], *, pause_s: float) -> None:
        """Copy for ever; whoever fails goes on from where the group has got to."""
        (target,) = places
        position = -1
        while True:
            await self.rest(pause_s)
            try:
                if self.producer_id < 0:
                    position = -1
                    if not await self._init():
                        continue
                if position < 0:
                    position = await committed_position(self, self._group, self._source)
                position = await self._copy(position, target)
            except KafkaError:
                self.producer_id = -1
                self._reader.forget_leader(self._source)
                await asyncio.sleep(PAUSE_S)

    async def _copy(self, position: int, target: Place) -> int:
        """Copy a few records in one transaction, and return where to go on."""
        fetched = await self._reader.fetch(self._source, position, only_committed=True)
        chosen = fetched.records[:RECORDS_AT_ONCE]
        if not chosen:
            return fetched.position
        next_position = chosen[-1][0] + 1
        transaction = self.begin()
        await self.add([target])
        epoch = self.producer_epoch
        is_sent = await self.send(target, transaction=transaction.name, copies=[value for _, value in chosen])
        if self.producer_id < 0 or self.producer_epoch != epoch:
            return -1
        if is_sent:
            await self.patiently(lambda: self._commit_position(next_position))
        await self.end(transaction, commits=is_sent)
        return next_position if is_sent else position

    async def _commit_position(self, position: int) -> None:
        if self.transaction_version == 1:
            adding = AddOffsetsToTxnRequest(
                transactional_id=self.transactional_id or "",
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                group_id=self._group,
            )
            added = await self.ask(await self._whom_to_ask(), adding, AddOffsetsToTxnResponse, version=3)
            check(added.error_code)
        partition = TxnOffsetCommitRequestPartition(
            partition_index=self._source.partition, committed_offset=position, committed_metadata=""
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id or "",
            group_id=self._group,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name=self._source.topic, partitions=[partition])],
        )
        coordinator = await self.coordinator_of(self._group, GROUP)
        version = COMMIT_VERSIONS[self.transaction_version]
        answer = await self.ask(coordinator, request, TxnOffsetCommitResponse, version=version)
        check(answer.topics[0].partitions[0].error_code)
