"""What the `txn` commands ask the cluster (KIP-664)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from highwater.cli.broker_client import ask_broker, ask_brokers
from highwater.cli.cluster import REQUEST_TIMEOUT_SECONDS
from highwater.cli.failures import CommandFailed, no_such
from highwater.model.errors import ErrorCode
from highwater.model.ids import TopicPartition
from highwater.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    TopicRequest,
)
from highwater.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from highwater.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from highwater.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from highwater.protocol.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from highwater.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from highwater.cli.cluster import Cluster

TRANSACTION_COORDINATOR: Final = 1
FINISHED: Final = frozenset({"Empty", "CompleteCommit", "CompleteAbort", "Dead"})
"""States in which nothing is open."""
DECIDED: Final = frozenset({"PrepareCommit", "PrepareAbort"})
"""States in which partitions are told the outcome."""


class Listed(NamedTuple):
    """A transactional id as its coordinator lists it."""

    transactional_id: str
    state: str
    producer_id: int
    coordinator: int


class Described(NamedTuple):
    """All that the coordinator knows of a transactional id."""

    transactional_id: str
    state: str
    producer_id: int
    producer_epoch: int
    coordinator: int
    timeout_ms: int
    started_at_ms: int
    partitions: list[TopicPartition]


class OpenTransaction(NamedTuple):
    """A transaction as one of its partitions sees it."""

    partition: TopicPartition
    leader: int
    start_offset: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    last_written_ms: int


def all_transactions(cluster: Cluster, *, producer_ids: Iterable[int] = ()) -> list[Listed]:
    """Return every transactional id, or those of some producers, by name."""
    request = ListTransactionsRequest(producer_id_filters=sorted(producer_ids))
    brokers = cluster.admin.list_topics(timeout=REQUEST_TIMEOUT_SECONDS).brokers
    found = []
    for broker, answer in ask_brokers(
        cluster, dict.fromkeys(sorted(brokers), request), ListTransactionsResponse, version=0
    ).items():
        _check(answer.error_code, f"broker {broker} cannot list its transactions")
        found += [
            Listed(each.transactional_id, each.transaction_state, each.producer_id, broker)
            for each in answer.transaction_states
        ]
    return sorted(found)


def described(cluster: Cluster, names: Iterable[str]) -> list[Described]:
    """Return what is known of transactional ids; fail if there is no such id."""
    return [_described(cluster, name) for name in names]


def _described(cluster: Cluster, name: str) -> Described:
    coordinator = coordinator_of(cluster, name)
    request = DescribeTransactionsRequest(transactional_ids=[name])
    (found,) = ask_broker(cluster, coordinator, request, DescribeTransactionsResponse, version=0).transaction_states
    if found.error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
        known = [each.transactional_id for each in all_transactions(cluster)]
        raise no_such("transactional id", name, known, "`highwater txn list` shows all")
    _check(found.error_code, f"{name} cannot be described")
    return Described(
        name,
        found.transaction_state,
        found.producer_id,
        found.producer_epoch,
        coordinator,
        found.transaction_timeout_ms,
        found.transaction_start_time_ms,
        [TopicPartition(topic.topic, index) for topic in found.topics for index in topic.partitions],
    )


def coordinator_of(cluster: Cluster, name: str) -> int:
    """Return the broker that coordinates a transactional id."""
    anybody = min(cluster.admin.list_topics(timeout=REQUEST_TIMEOUT_SECONDS).brokers)
    request = FindCoordinatorRequest(key_type=TRANSACTION_COORDINATOR, coordinator_keys=[name])
    (found,) = ask_broker(cluster, anybody, request, FindCoordinatorResponse, version=4).coordinators
    _check(found.error_code, f"{name} has no coordinator right now")
    return found.node_id


def open_transactions(cluster: Cluster, topics: Iterable[str] | None = None) -> list[OpenTransaction]:
    """Return the transactions that partitions wait for the end of, in the order of partitions."""
    requests: dict[int, DescribeProducersRequest] = {}
    known = cluster.topics()
    for name in sorted(known if topics is None else topics):
        for index, partition in sorted(known[name].partitions.items()):
            if partition.leader >= 0:
                request = requests.setdefault(partition.leader, DescribeProducersRequest())
                request.topics.append(TopicRequest(name=name, partition_indexes=[index]))
    answers = ask_brokers(cluster, requests, DescribeProducersResponse, version=0)
    return sorted(
        OpenTransaction(
            TopicPartition(topic.name, partition.partition_index),
            leader,
            producer.current_txn_start_offset,
            producer.producer_id,
            producer.producer_epoch,
            producer.coordinator_epoch,
            producer.last_timestamp,
        )
        for leader, answer in answers.items()
        for topic in answer.topics
        for partition in topic.partitions
        for producer in partition.active_producers
        if producer.current_txn_start_offset >= 0
    )


def hanging_transactions(
    cluster: Cluster, topics: Iterable[str] | None = None, *, written_before_ms: int
) -> list[OpenTransaction]:
    """Return the transactions that no coordinator will ever end: it knows nothing of them, or not of this partition."""
    candidates = [each for each in open_transactions(cluster, topics) if each.last_written_ms < written_before_ms]
    if not candidates:
        return []
    listed = all_transactions(cluster, producer_ids={each.producer_id for each in candidates})
    unfinished = [each.transactional_id for each in listed if each.state not in FINISHED]
    cared_for = {
        (each.producer_id, partition) for each in described(cluster, unfinished) for partition in each.partitions
    }
    return [each for each in candidates if (each.producer_id, each.partition) not in cared_for]


def abort_hanging(cluster: Cluster, transaction: OpenTransaction) -> None:
    """Have the partition end a transaction that no coordinator ends."""
    topic, index = transaction.partition
    marker = WritableTxnMarker(
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        coordinator_epoch=max(transaction.coordinator_epoch, 0),
        transaction_result=False,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=[index])],
    )
    request = WriteTxnMarkersRequest(markers=[marker])
    answer = ask_broker(cluster, transaction.leader, request, WriteTxnMarkersResponse, version=1)
    _check(answer.markers[0].topics[0].partitions[0].error_code, f"{topic}-{index} does not take the marker")


def abort_open(cluster: Cluster, name: str, timeout_ms: int) -> bool:
    """Take the id away from its producer, which ends what is open; return whether that has ended yet."""
    request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms)
    answer = ask_broker(cluster, coordinator_of(cluster, name), request, InitProducerIdResponse, version=4)
    if answer.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
        return False
    _check(answer.error_code, f"{name} cannot be aborted")
    return True


def _check(error_code: int, what: str) -> None:
    if error_code != ErrorCode.NONE:
        raise CommandFailed(f"{what} ({ErrorCode(error_code).name})")
