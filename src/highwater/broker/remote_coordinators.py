"""Asking a transaction's coordinator on another broker whether the transaction may be written to here (KIP-890)."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Final

from highwater.broker.gathered_requests import GatheredRequests
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import NO_BROKER, BrokerId, TopicPartition
from highwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from highwater.broker.peers import Peers
    from highwater.broker.transaction_check import Entry

ADD_PARTITIONS_VERSION: Final = 5
TRANSACTIONS_AT_ONCE: Final = 1000


class RemoteCoordinators:
    """Sends what must be asked, one request at a time to each broker: answers come in the order of the questions."""

    def __init__(self, loop: AbstractEventLoop, me: BrokerId, peers: Peers) -> None:
        self._me = me
        self._peers = peers
        self._requests: GatheredRequests[Entry, list[ErrorCode]] = GatheredRequests(
            loop, self._send, most_in_one=TRANSACTIONS_AT_ONCE, most_under_way=1
        )

    def ask(self, coordinator: BrokerId, entry: Entry, tell: Callable[[list[ErrorCode]], None]) -> None:
        """Tell for each partition whether the coordinator lets it be written to."""

        def told(answer: list[ErrorCode] | KafkaError) -> None:
            tell([answer.code] * len(entry.partitions) if isinstance(answer, KafkaError) else answer)

        if coordinator in {NO_BROKER, self._me}:
            # Nobody leads its partition, or we do and have not been told yet.
            told(KafkaError(code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
        else:
            self._requests.ask(coordinator, entry, told)

    def close(self) -> None:
        """Ask nothing more."""
        self._requests.close()
        self._peers.close()

    async def _send(self, broker: BrokerId, entries: list[Entry]) -> list[list[ErrorCode]]:
        response = await self._peers.get(broker).ask(
            AddPartitionsToTxnRequest(transactions=[_transaction(entry) for entry in entries]),
            AddPartitionsToTxnResponse,
            version=ADD_PARTITIONS_VERSION,
        )
        if response.error_code:
            raise KafkaError("the coordinator does not answer brokers", code=ErrorCode(response.error_code))
        results = response.results_by_transaction
        if len(results) != len(entries):
            raise KafkaError(f"{len(results)} answers for {len(entries)} transactions")
        return [_codes(entry, result) for entry, result in zip(entries, results, strict=True)]


def _transaction(entry: Entry) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=entry.transactional_id,
        producer_id=entry.producer.id,
        producer_epoch=entry.producer.epoch,
        verify_only=not entry.adds,
        topics=[
            AddPartitionsToTxnTopic(name=topic, partitions=[name.partition for name in names])
            for topic, names in groupby(sorted(set(entry.partitions)), attrgetter("topic"))
        ],
    )


def _codes(entry: Entry, result: AddPartitionsToTxnResult) -> list[ErrorCode]:
    found = {
        TopicPartition(topic.name, partition.partition_index): ErrorCode(partition.partition_error_code)
        for topic in result.topic_results
        for partition in topic.results_by_partition
    }
    return [found.get(name, ErrorCode.UNKNOWN_SERVER_ERROR) for name in entry.partitions]
