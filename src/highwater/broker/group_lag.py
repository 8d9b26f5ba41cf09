"""How far groups are behind, worked out when somebody asks and not while they commit."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from highwater.broker.group_coordinator import GroupCoordinator
    from highwater.broker.partitions import Partitions
    from highwater.metrics.registry import Sample


def lags(groups: GroupCoordinator, partitions: Partitions) -> Iterator[Sample]:
    """Return the records between each committed offset and the high watermark.

    Only the groups that we coordinate, and of what they read the partitions that we have a replica of.
    """
    for shard in groups.shards():
        for group_id, offsets in list(shard.core.offsets.items()):
            for name in list(offsets.partitions()):
                partition = partitions.get(*name)
                committed = offsets.get(*name)
                if partition is not None and committed is not None:
                    lag = max(partition.high_watermark - committed.offset, 0)
                    yield (group_id, name.topic, str(name.partition)), lag
