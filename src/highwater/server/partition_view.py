"""A partition as Metadata and DescribeTopicPartitions show it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from highwater.model.errors import ErrorCode
from highwater.model.ids import NO_BROKER, BrokerId

if TYPE_CHECKING:
    from highwater.broker.broker import Broker
    from highwater.broker.topics import Topic


class PartitionView(NamedTuple):
    """Who leads, who follows, and who of them is not there."""

    error_code: ErrorCode
    leader: BrokerId
    leader_epoch: int
    replicas: list[int]
    isr: list[int]
    offline: list[int]


def view_partition(broker: Broker, topic: Topic, index: int) -> PartitionView:
    """Return what a client should know of a partition; without a live leader that is LEADER_NOT_AVAILABLE."""
    state = topic.partitions[index]
    cluster = broker.cluster
    offline: list[int] = [replica for replica in state.replicas if replica not in cluster.brokers]
    if broker.partitions.is_offline(topic.name, index):
        offline.append(broker.id)
    # A leader whose process has ended is told as none before another is elected: clients then ask again soon, and do
    # not rest on an answer that was true a moment ago.
    leaderless = state.leader == NO_BROKER or state.leader in offline or state.leader in cluster.seem_gone
    return PartitionView(
        ErrorCode.LEADER_NOT_AVAILABLE if leaderless else ErrorCode.NONE,
        NO_BROKER if leaderless else state.leader,
        state.leader_epoch,
        list(state.replicas),
        list(state.isr),
        offline,
    )
