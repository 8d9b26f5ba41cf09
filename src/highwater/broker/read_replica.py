"""Which replica a consumer reads from: the leader, or one in the consumer's own rack (KIP-392)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from highwater.broker.cluster import Cluster
    from highwater.broker.partition import Partition
    from highwater.model.ids import BrokerId, Offset

LEADER: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
"""The names of Kafka's two classes, which is what its users have in their files."""


def closest_replica(partition: Partition, rack: str, offset: Offset, cluster: Cluster) -> BrokerId | None:
    """Return a follower in this rack that has what is asked for, the one that has most; None if the leader will do.

    Only in-sync followers count: one that is behind would keep its readers behind too.
    """
    leadership = partition.leadership
    here = cluster.brokers.get(partition.leader)
    if leadership is None or (here is not None and here.rack == rack):
        return None
    ends = {
        broker: remote.end_offset
        for broker, remote in leadership.remotes.items()
        if broker in leadership.isr and remote.end_offset >= offset
    }
    near = [broker for broker in ends if broker in cluster.brokers and cluster.brokers[broker].rack == rack]
    return max(near, key=lambda broker: ends[broker], default=None)
