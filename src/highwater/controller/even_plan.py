"""A plan that makes a cluster even by moving little: as many replicas on each broker, and as many leaders.

First replicas move from brokers that hold too many, or that shall hold none, to those that hold the fewest. Then the
order of replicas changes, which moves no data, until every broker is the preferred leader of as many partitions.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from highwater.model.ids import BrokerId, TopicPartition

    Placement = dict[TopicPartition, tuple[BrokerId, ...]]


def even_plan(
    placed: Mapping[TopicPartition, Sequence[BrokerId]],
    brokers: Collection[BrokerId],
    racks: Mapping[BrokerId, str | None],
) -> Placement:
    """Return the new replicas, the preferred leader first, of those partitions whose replicas should change.

    Every partition keeps its number of replicas, and is on no fewer racks than before. No partition may have more
    replicas than there are `brokers`.
    """
    draft = _Draft(placed, brokers, racks)
    draft.leave_others()
    draft.even_out_replicas()
    draft.even_out_leaders()
    return {name: replicas for name, replicas in draft.placed.items() if replicas != tuple(placed[name])}


class _Draft:
    """A placement that becomes even step by step."""

    def __init__(
        self,
        placed: Mapping[TopicPartition, Sequence[BrokerId]],
        brokers: Collection[BrokerId],
        racks: Mapping[BrokerId, str | None],
    ) -> None:
        self.placed: Placement = {name: tuple(placed[name]) for name in sorted(placed)}
        self._brokers = sorted(brokers)
        self._racks = racks
        self._held: dict[BrokerId, set[TopicPartition]] = defaultdict(set)
        self._held_of_topic: Counter[tuple[BrokerId, str]] = Counter()
        for name, replicas in self.placed.items():
            for broker in replicas:
                self._held[broker].add(name)
                self._held_of_topic[broker, name.topic] += 1

    # Replicas -------------------------------------------------------------------------------------------------------

    def leave_others(self) -> None:
        """Move everything away from brokers that shall hold nothing."""
        for broker in sorted(self._held.keys() - set(self._brokers)):
            for name in sorted(self._held[broker]):
                targets = [target for target in self._brokers if target not in self.placed[name]]
                assert targets, f"{name} has more replicas than there are brokers"
                keeping = [target for target in targets if self._keeps_racks(name, broker, target)]
                self._move(name, broker, min(keeping or targets, key=lambda target: self._load(target, name)))

    def even_out_replicas(self) -> None:
        """Move from the fullest broker to the emptiest, as long as that makes them more even."""
        while True:
            for source in sorted(self._brokers, key=lambda broker: -len(self._held[broker])):
                if self._relieve(source):
                    break
            else:
                return

    def _relieve(self, source: BrokerId) -> bool:
        for target in sorted(self._brokers, key=lambda broker: len(self._held[broker])):
            if len(self._held[source]) - len(self._held[target]) <= 1:
                return False
            movable = [
                name
                for name in self._held[source]
                if target not in self.placed[name] and self._keeps_racks(name, source, target)
            ]
            if movable:
                self._move(min(movable, key=lambda name: (self._gain(name, source, target), name)), source, target)
                return True
        return False

    def _gain(self, name: TopicPartition, source: BrokerId, target: BrokerId) -> int:
        """Return how much fuller of this topic the target is: the less, the better for the topic's own evenness."""
        return self._held_of_topic[target, name.topic] - self._held_of_topic[source, name.topic]

    def _load(self, broker: BrokerId, name: TopicPartition) -> tuple[int, int]:
        return len(self._held[broker]), self._held_of_topic[broker, name.topic]

    def _keeps_racks(self, name: TopicPartition, source: BrokerId, target: BrokerId) -> bool:
        replicas = self.placed[name]
        after = [target if broker == source else broker for broker in replicas]
        return len({self._racks.get(broker) for broker in after}) >= len({self._racks.get(b) for b in replicas})

    def _move(self, name: TopicPartition, source: BrokerId, target: BrokerId) -> None:
        self.placed[name] = tuple(target if broker == source else broker for broker in self.placed[name])
        self._held[source].discard(name)
        self._held[target].add(name)
        self._held_of_topic[source, name.topic] -= 1
        self._held_of_topic[target, name.topic] += 1

    # Leaders --------------------------------------------------------------------------------------------------------

    def even_out_leaders(self) -> None:
        """Hand leaderships on, over several brokers if need be, from those with many to those with few."""
        led: dict[BrokerId, set[TopicPartition]] = {broker: set() for broker in self._brokers}
        for name, replicas in self.placed.items():
            led[replicas[0]].add(name)
        while chain := self._chain(led):
            for name, leader in chain:
                replicas = self.placed[name]
                led[replicas[0]].discard(name)
                led[leader].add(name)
                self.placed[name] = (leader, *(broker for broker in replicas if broker != leader))

    def _chain(self, led: Mapping[BrokerId, set[TopicPartition]]) -> list[tuple[TopicPartition, BrokerId]]:
        """Return which partitions get which leader so that a broker with many has one less, and one with few more."""
        for source in sorted(self._brokers, key=lambda broker: -len(led[broker])):
            came_by: dict[BrokerId, tuple[TopicPartition, BrokerId] | None] = {source: None}
            queue = deque([source])
            while queue:
                broker = queue.popleft()
                if len(led[source]) - len(led[broker]) > 1:
                    return _way_to(broker, came_by)
                for name in sorted(led[broker]):
                    for follower in self.placed[name][1:]:
                        if follower not in came_by:
                            came_by[follower] = (name, broker)
                            queue.append(follower)
        return []


def _way_to(
    broker: BrokerId, came_by: Mapping[BrokerId, tuple[TopicPartition, BrokerId] | None]
) -> list[tuple[TopicPartition, BrokerId]]:
    way: list[tuple[TopicPartition, BrokerId]] = []
    while (step := came_by[broker]) is not None:
        name, before = step
        way.append((name, broker))
        broker = before
    return way
