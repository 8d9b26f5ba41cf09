"""Leadership drifts when brokers come and go: which partitions should go back to their preferred leaders?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from highwater.controller.leadership_rules import preferred

if TYPE_CHECKING:
    from highwater.controller.partition import ControlledPartition
    from highwater.model.ids import BrokerId, TopicPartition


def to_give_back(
    partitions: Iterable[tuple[TopicPartition, ControlledPartition]],
    live: Collection[BrokerId],
    *,
    tolerated_percent: int,
) -> Iterator[TopicPartition]:
    """Return the partitions whose preferred leader should lead again.

    Broker by broker: as long as no more than `tolerated_percent` of the partitions that prefer a broker are led
    elsewhere, nothing moves, for every move costs the clients a look at the metadata.
    """
    total: dict[BrokerId, int] = defaultdict(int)
    led_elsewhere: dict[BrokerId, list[TopicPartition]] = defaultdict(list)
    for name, partition in partitions:
        first = partition.assignment.replicas[0]
        total[first] += 1
        if partition.leadership.leader != first and preferred(partition, live) is not None:
            led_elsewhere[first].append(name)
    for broker in sorted(led_elsewhere):
        if len(led_elsewhere[broker]) * 100 > total[broker] * tolerated_percent:
            yield from led_elsewhere[broker]
