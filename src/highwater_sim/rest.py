"""Whether a cluster comes to rest: once nobody asks for anything, whatever was begun has ended.

A wait that only the next request would end shows here, and not where clients go on writing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from highwater.broker.broker import Broker
    from highwater.broker.partition import Partition
    from highwater_sim.cluster import Cluster


def unrest(cluster: Cluster) -> frozenset[str]:
    """Return what is still under way, and where; what goes on at all is told in other words the next time."""
    return frozenset(
        f"{machine.name}: {what}"
        for machine in cluster.machines
        if machine.node is not None and machine.node.broker is not None
        for what in _under_way(machine.node.broker)
    )


def _under_way(broker: Broker) -> Iterator[str]:
    for partition in broker.partitions:
        yield from _of_replica(partition)
    for log_dir in broker.replicas.log_dirs:
        for move in broker.replicas.moves.to(log_dir):
            yield f"{move.partition.name} is still copied to {log_dir.path}"
    if broker.groups.is_loading or broker.transactions.is_loading:
        yield "a coordinator still loads"
    for shard in broker.transactions.shards():
        if shard.markers_left:
            yield f"{shard.journal.partition.name}: {shard.markers_left} markers are not written"
        for transaction in shard.core.transactions.values():
            if transaction.state.is_prepared:
                yield f"the transaction of {transaction.transactional_id} is {transaction.state.label}"


def _of_replica(partition: Partition) -> Iterator[str]:
    committed, stable = partition.high_watermark, partition.last_stable_offset
    end = f"{partition.log.log_end_offset}, epoch {partition.leader_epoch}"
    if committed < partition.log.log_end_offset:
        yield f"{partition.name} is committed up to {committed} of {end}"
    if partition.leads and stable < committed:
        yield f"{partition.name} is stable up to {stable} of {end}"
    if partition.pins:
        yield f"{partition.name} is worked on by {partition.pins}"
