"""Where replicas are and which are in sync, as it is written in the cluster's memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.coordination import paths
from highwater.coordination.records import PartitionStateRecord, TopicRecord

if TYPE_CHECKING:
    from highwater_sim.cluster import Cluster


def out_of_sync(cluster: Cluster) -> list[str]:
    """Return what is not in sync everywhere it should be, or is led by nobody."""
    found = []
    for topic in cluster.store.children(paths.TOPICS):
        node = cluster.store.read(paths.topic(topic))
        record = TopicRecord.decode(paths.topic(topic), node.data)
        for index, replicas in sorted(record.replicas.items()):
            path = paths.partition_state(topic, index)
            state = cluster.store.find(path)
            if state is None:
                found.append(f"{topic}-{index} has no state")
                continue
            decoded = PartitionStateRecord.decode(path, state.data)
            if set(decoded.isr) != set(replicas) or decoded.leader < 0:
                found.append(f"{topic}-{index}: leader {decoded.leader}, in sync {decoded.isr} of {replicas}")
    return found


def has_replicas_elsewhere(cluster: Cluster, brokers: set[int]) -> bool:
    """Return whether every partition has a replica on another broker than these."""
    for topic in cluster.store.children(paths.TOPICS):
        record = TopicRecord.decode(paths.topic(topic), cluster.store.read(paths.topic(topic)).data)
        if any(brokers.issuperset(replicas) for replicas in record.replicas.values()):
            return False
    return True
