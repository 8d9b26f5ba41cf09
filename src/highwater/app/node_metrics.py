"""Where a node's metrics come from: each declared gauge asked of the part that knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.broker.group_lag import lags
from highwater.metrics import declared

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from highwater.broker.broker import Broker
    from highwater.broker.partition import Partition
    from highwater.metrics.registry import Registry, Sample


def connect(registry: Registry, broker: Broker) -> None:
    """Let every scrape ask `broker` for its gauges."""
    partitions = broker.partitions

    def per_partition(read: Callable[[Partition], int]) -> Callable[[], Iterable[Sample]]:
        return lambda: (
            ((partition.name.topic, str(partition.name.partition)), read(partition)) for partition in partitions
        )

    registry.ask(declared.LOG_SIZE_BYTES, per_partition(lambda partition: partition.log.size_bytes))
    registry.ask(declared.LOG_START_OFFSET, per_partition(lambda partition: partition.log.log_start_offset))
    registry.ask(declared.LOG_END_OFFSET, per_partition(lambda partition: partition.log.log_end_offset))
    registry.ask_one(declared.APPENDED_BYTES, lambda: broker.appends.written_bytes)
    registry.ask_one(declared.APPENDED_BATCHES, lambda: broker.appends.written_batches)
    registry.ask_one(declared.PARTITIONS, lambda: len(partitions) + partitions.offline)
    registry.ask_one(declared.LEADER_PARTITIONS, lambda: sum(partition.leads for partition in partitions))
    registry.ask_one(declared.UNDER_REPLICATED_PARTITIONS, lambda: _under_replicated(partitions))
    registry.ask_one(declared.OFFLINE_PARTITIONS, lambda: partitions.offline)
    registry.ask_one(declared.ACTIVE_CONTROLLERS, lambda: int(broker.cluster.controller_id == broker.id))
    registry.ask(declared.GROUP_LAG, lambda: lags(broker.groups, partitions))
    registry.ask_one(declared.FETCH_SESSIONS, lambda: len(broker.fetch_sessions))


def _under_replicated(partitions: Iterable[Partition]) -> int:
    return sum(
        partition.leads and len(partition.in_sync_replicas) < len(partition.replicas) for partition in partitions
    )
