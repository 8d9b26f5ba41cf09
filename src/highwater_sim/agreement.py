"""Whether all brokers know what is written in the cluster's memory, once everything has been calm for a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.coordination import paths
from highwater.coordination.records import PartitionStateRecord, TopicRecord, decode_configs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from highwater.broker.topics import Topics
    from highwater_sim.cluster import Cluster
    from highwater_sim.store import Store


def disagreements(cluster: Cluster) -> list[str]:
    """Return what a broker knows otherwise than it is written."""
    return [
        f"{machine.name}: {what}"
        for machine in cluster.machines
        if machine.node is not None and machine.node.broker is not None
        for what in _differences(cluster.store, machine.node.broker.topics)
    ]


def _differences(store: Store, known: Topics) -> Iterator[str]:
    written = set(store.children(paths.TOPICS))
    for topic in known:
        if topic.name not in written:
            yield f"knows {topic.name}, which is not"
    for name in sorted(written):
        there = known.get(name)
        if there is None:
            yield f"does not know {name}"
            continue
        record = TopicRecord.decode(paths.topic(name), store.read(paths.topic(name)).data)
        config = store.find(paths.topic_config(name))
        configs = {} if config is None else decode_configs(paths.topic_config(name), config.data)
        if there.configs != configs:
            yield f"{name} has {there.configs}, written is {configs}"
        if len(there.partitions) != len(record.replicas):
            yield f"{name} has {len(there.partitions)} partitions, written are {len(record.replicas)}"
        for index, partition in enumerate(there.partitions):
            path = paths.partition_state(name, index)
            state = PartitionStateRecord.decode(path, store.read(path).data)
            knows = (partition.leader, partition.leader_epoch, set(partition.isr), partition.replicas)
            is_so = (state.leader, state.leader_epoch, set(state.isr), record.replicas.get(index))
            if knows != is_so:
                yield f"{name}-{index} is {knows}, written is {is_so}"
