"""The driver's side of a transaction, request by request: fence, look at the token, add partitions, commit."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from highwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from highwater.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from highwater.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
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
from highwater_spark.exactly_once.brokers import GROUP, TRANSACTION, Brokers, Coordinator, Refused, Target
from highwater_spark.exactly_once.connection import Disconnected
from highwater_spark.exactly_once.token import Entries

# Those that every broker since Kafka 3.0 knows, 4.x included. Later ones make the broker add partitions by itself and
# raise the epoch with each commit (KIP-890); our tasks write with one epoch that the driver alone hands out.
INIT_PRODUCER_ID_VERSION: Final = 4
ADD_PARTITIONS_VERSION: Final = 3
ADD_OFFSETS_VERSION: Final = 3
TXN_OFFSET_COMMIT_VERSION: Final = 3
END_TXN_VERSION: Final = 3
OFFSET_FETCH_VERSION: Final = 8

LOST_CODES: Final = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
"""The transaction is no longer ours: it was aborted, or another driver has taken the sink's id."""

Offsets = Mapping[Target, tuple[int, str]]  # (offset, metadata)


@dataclass(frozen=True, slots=True)
class Identity:
    """Under which name records are written: whoever has an older epoch writes nothing."""

    transactional_id: str
    producer_id: int
    epoch: int


class Transactions:
    """The transactions of one sink, one after the other."""

    def __init__(self, brokers: Brokers, transactional_id: str, timeout_ms: int) -> None:
        self._brokers = brokers
        self._transactional_id = transactional_id
        self._timeout_ms = timeout_ms
        self._coordinator = Coordinator(brokers, transactional_id, TRANSACTION)
        self._groups: dict[str, Coordinator] = {}

    def fence(self) -> Identity:
        """Abort what an earlier driver, or an earlier attempt of ours, left open; return the identity to write with."""
        asked = InitProducerIdRequest(transactional_id=self._transactional_id, transaction_timeout_ms=self._timeout_ms)
        answer = self._coordinator.ask(
            asked, InitProducerIdResponse, INIT_PRODUCER_ID_VERSION, lambda found: [found.error_code]
        )
        return Identity(self._transactional_id, answer.producer_id, answer.producer_epoch)

    def committed(self, group: str, topics: Sequence[str]) -> Entries:
        """Return what a group has committed for partition 0 of each topic, once nothing about it is undecided."""
        wanted = [OffsetFetchRequestTopics(name=topic, partition_indexes=[0]) for topic in topics]
        asked = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=wanted)], require_stable=True)
        answer = self._group(group).ask(
            asked,
            OffsetFetchResponse,
            OFFSET_FETCH_VERSION,
            lambda found: [
                *(one.error_code for one in found.groups),
                *(
                    partition.error_code
                    for one in found.groups
                    for topic in one.topics
                    for partition in topic.partitions
                ),
            ],
        )
        return {
            topic.name: (partition.committed_offset, partition.metadata or "")
            for one in answer.groups
            for topic in one.topics
            for partition in topic.partitions
        }

    def add_partitions(self, identity: Identity, targets: Sequence[Target]) -> None:
        """Make partitions part of the transaction, before anything is written to them."""
        by_topic: dict[str, list[int]] = {}
        for target in targets:
            by_topic.setdefault(target.topic, []).append(target.partition)
        asked = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=identity.transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=p) for name, p in by_topic.items()],
        )
        self._coordinator.ask(
            asked,
            AddPartitionsToTxnResponse,
            ADD_PARTITIONS_VERSION,
            lambda found: [
                partition.partition_error_code
                for topic in found.results_by_topic_v3_and_below
                for partition in topic.results_by_partition
                if partition.partition_error_code != ErrorCode.OPERATION_NOT_ATTEMPTED
            ],
        )

    def commit_offsets(self, identity: Identity, group: str, offsets: Offsets) -> None:
        """Make offsets of a group part of the transaction."""
        added = AddOffsetsToTxnRequest(
            transactional_id=identity.transactional_id,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            group_id=group,
        )
        self._coordinator.ask(added, AddOffsetsToTxnResponse, ADD_OFFSETS_VERSION, lambda found: [found.error_code])
        by_topic: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
        for target, (offset, metadata) in offsets.items():
            partition = TxnOffsetCommitRequestPartition(
                partition_index=target.partition, committed_offset=offset, committed_metadata=metadata
            )
            by_topic.setdefault(target.topic, []).append(partition)
        asked = TxnOffsetCommitRequest(
            transactional_id=identity.transactional_id,
            group_id=group,
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in by_topic.items()],
        )
        self._group(group).ask(
            asked,
            TxnOffsetCommitResponse,
            TXN_OFFSET_COMMIT_VERSION,
            lambda found: [partition.error_code for topic in found.topics for partition in topic.partitions],
        )

    def commit(self, identity: Identity) -> None:
        """Commit everything; on return it is decided. If the answer is lost, ask again with the same epoch."""
        self._coordinator.ask(
            _end(identity, committed=True), EndTxnResponse, END_TXN_VERSION, lambda found: [found.error_code]
        )

    def abort(self, identity: Identity) -> None:
        """Abort what is not committed, so that readers need not wait for it; a broker that does not answer is let be.

        Should a commit be under way, this comes too late, and the token will tell.
        """
        with contextlib.suppress(Disconnected, Refused):
            self._brokers.call(
                self._coordinator.locate(), _end(identity, committed=False), EndTxnResponse, END_TXN_VERSION
            )

    def _group(self, group: str) -> Coordinator:
        return self._groups.setdefault(group, Coordinator(self._brokers, group, GROUP))


def _end(identity: Identity, *, committed: bool) -> EndTxnRequest:
    return EndTxnRequest(
        transactional_id=identity.transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.epoch,
        committed=committed,
    )


def is_lost(error: Refused) -> bool:
    """Return whether a refusal says that the transaction is no longer ours."""
    return error.code in LOST_CODES
