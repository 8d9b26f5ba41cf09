"""Moves of partitions between brokers: begun, looked at, and throttled as Apache Kafka's own tool does it."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from highwater.cli.cluster import REQUEST_TIMEOUT_SECONDS, answers
from highwater.cli.controller_client import ask_controller
from highwater.cli.failures import CommandFailed
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from highwater.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from highwater.cli.cluster import Cluster
    from highwater.model.ids import TopicPartition

ALTER_VERSION: Final = 0
LIST_VERSION: Final = 0
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
"""Settings of brokers: how many bytes a second throttled replicas may send and fetch."""
SENDERS: Final = "leader.replication.throttled.replicas"
RECEIVERS: Final = "follower.replication.throttled.replicas"
"""Settings of topics: the replicas for which that counts, as partition:broker."""


class Move(NamedTuple):
    """A partition that is being moved."""

    topic: str
    partition: int
    replicas: list[int]
    adding: list[int]
    removing: list[int]


def begin_moves(cluster: Cluster, plan: Mapping[TopicPartition, Sequence[int] | None]) -> None:
    """Give partitions other replicas; None calls a move off."""
    by_topic: dict[str, ReassignableTopic] = {}
    for (name, index), target in plan.items():
        topic = by_topic.setdefault(name, ReassignableTopic(name=name))
        replicas = None if target is None else list(target)
        topic.partitions.append(ReassignablePartition(partition_index=index, replicas=replicas))
    request = AlterPartitionReassignmentsRequest(topics=list(by_topic.values()))
    response = ask_controller(cluster, request, AlterPartitionReassignmentsResponse, version=ALTER_VERSION)
    if response.error_code != ErrorCode.NONE:
        raise CommandFailed(response.error_message or ErrorCode(response.error_code).name)
    for answer in response.responses:
        for partition in answer.partitions:
            if partition.error_code != ErrorCode.NONE:
                raise CommandFailed(f"{answer.name}-{partition.partition_index}: {partition.error_message}")


def moves_under_way(cluster: Cluster) -> list[Move]:
    """Return what is being moved."""
    request = ListPartitionReassignmentsRequest(topics=None)
    response = ask_controller(cluster, request, ListPartitionReassignmentsResponse, version=LIST_VERSION)
    if response.error_code != ErrorCode.NONE:
        raise CommandFailed(response.error_message or ErrorCode(response.error_code).name)
    return [
        Move(topic.name, move.partition_index, move.replicas, move.adding_replicas, move.removing_replicas)
        for topic in response.topics
        for move in topic.partitions
    ]


def throttle_moves(
    cluster: Cluster,
    before: Mapping[TopicPartition, Sequence[int]],
    after: Mapping[TopicPartition, Sequence[int]],
    bytes_per_second: int,
) -> None:
    """Hold what moves back to a rate; replicas that stay where they are replicate as fast as ever."""
    senders: dict[str, list[str]] = defaultdict(list)
    receivers: dict[str, list[str]] = defaultdict(list)
    for name, target in after.items():
        topic, index, now = name.topic, name.partition, before[name]
        if new := [broker for broker in target if broker not in now]:
            senders[topic] += [f"{index}:{broker}" for broker in now]
            receivers[topic] += [f"{index}:{broker}" for broker in new]
    for broker in _brokers(cluster):
        _alter(cluster, "BROKER", broker, dict.fromkeys(RATES, str(bytes_per_second)))
    for topic, sending in senders.items():
        throttled = {SENDERS: ",".join(sending), RECEIVERS: ",".join(receivers[topic])}
        _alter(cluster, "TOPIC", topic, throttled)


def lift_throttle(cluster: Cluster, topics: Iterable[str]) -> None:
    """Hold nothing back any more."""
    for topic in topics:
        _alter(cluster, "TOPIC", topic, {SENDERS: None, RECEIVERS: None})
    for broker in _brokers(cluster):
        _alter(cluster, "BROKER", broker, dict.fromkeys(RATES))


def _brokers(cluster: Cluster) -> list[str]:
    return [str(broker) for broker in sorted(cluster.admin.list_topics(timeout=REQUEST_TIMEOUT_SECONDS).brokers)]


def _alter(cluster: Cluster, kind: str, name: str, configs: Mapping[str, str | None]) -> None:
    """Set settings, or with None delete them."""
    from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

    changes = [
        ConfigEntry(
            key, value, incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        )
        for key, value in configs.items()
    ]
    resource = ConfigResource(ResourceType[kind], name, incremental_configs=changes)
    answers(cluster.admin.incremental_alter_configs([resource], request_timeout=REQUEST_TIMEOUT_SECONDS))
