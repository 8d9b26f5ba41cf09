"""Uniform: as even as subscriptions allow, moving as little as possible, and near the member where that costs nothing.

Members keep what they have up to their share. What is left over goes to whoever has the least, and among those to one
in a rack that holds a replica. When subscriptions differ, partitions then move from members with more to members with
less for as long as that makes the group more even.
"""

from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from highwater.groups.consumer.assignment import Assignment, pairs
from highwater.groups.consumer.assignors.spec import GroupSpec
from highwater.model.ids import TopicId

_Partition: TypeAlias = tuple[TopicId, int]


def assign_uniformly(group: GroupSpec) -> Mapping[str, Assignment]:
    """Assign."""
    if not group.members:
        return {}
    subscriptions = {member.topics for member in group.members.values()}
    shares = _Shares(group)
    if len(subscriptions) == 1:
        shares.keep_up_to_share()
        shares.hand_out()
    else:
        shares.keep_all()
        shares.hand_out()
        shares.even_out()
    return shares.result()


class _Shares:
    """Partitions on their way to their members."""

    def __init__(self, group: GroupSpec) -> None:
        self._group = group
        self._held: dict[str, dict[_Partition, None]] = {member_id: {} for member_id in sorted(group.members)}
        self._readers = {
            topic_id: [member_id for member_id in self._held if topic_id in group.members[member_id].topics]
            for topic_id in group.topics
        }
        self._left: dict[_Partition, None] = {
            (topic_id, partition): None
            for topic_id in sorted(group.topics)
            if self._readers[topic_id]
            for partition in range(group.topics[topic_id].partition_count)
        }

    def result(self) -> Mapping[str, Assignment]:
        """Return who got what."""
        assigned: dict[str, dict[TopicId, set[int]]] = {}
        for member_id, held in self._held.items():
            topics = assigned.setdefault(member_id, {})
            for topic_id, partition in held:
                topics.setdefault(topic_id, set()).add(partition)
        return {
            member_id: {topic_id: frozenset(partitions) for topic_id, partitions in topics.items()}
            for member_id, topics in assigned.items()
        }

    # Keeping

    def keep_all(self) -> None:
        """Let every member keep what it had and still reads."""
        for member_id in self._held:
            for partition in self._still_valid(member_id):
                self._give(member_id, partition)

    def keep_up_to_share(self) -> None:
        """Let every member keep what it had, up to its share; those with most keep the one that does not divide."""
        each, extra = divmod(len(self._left), len(self._held))
        by_size = sorted(self._held, key=lambda member_id: -sum(1 for _ in self._still_valid(member_id)))
        for member_id in by_size:
            valid = sorted(self._still_valid(member_id), key=lambda partition: not self._is_near(member_id, partition))
            share = each + (1 if extra and len(valid) > each else 0)
            extra -= share > each
            for partition in valid[:share]:
                self._give(member_id, partition)

    def _still_valid(self, member_id: str) -> Iterator[_Partition]:
        """Return what the member had, reads, and nobody else has been given yet, in order."""
        member = self._group.members[member_id]
        had = (each for each in pairs(member.assigned) if each[0] in member.topics and each in self._left)
        return iter(sorted(had))

    def _give(self, member_id: str, partition: _Partition) -> None:
        self._held[member_id][partition] = None
        del self._left[partition]

    # Handing out

    def hand_out(self) -> None:
        """Give what is left to whoever has least; topics that few read come first, while there is a choice."""
        by_topic: dict[TopicId, list[_Partition]] = {}
        for partition in self._left:
            by_topic.setdefault(partition[0], []).append(partition)
        for topic_id in sorted(by_topic, key=lambda topic_id: (len(self._readers[topic_id]), topic_id)):
            heap = [(len(self._held[member_id]), member_id) for member_id in self._readers[topic_id]]
            heapify(heap)
            for partition in by_topic[topic_id]:
                self._hand_out_one(partition, heap)

    def _hand_out_one(self, partition: _Partition, heap: list[tuple[int, str]]) -> None:
        """Give one partition to the nearest of those who have least."""
        least = heap[0][0]
        equals = [heappop(heap)]
        if self._group.topics[partition[0]].racks:
            while heap and heap[0][0] == least and not self._is_near(equals[-1][1], partition):
                equals.append(heappop(heap))
        near = next((each for each in equals if self._is_near(each[1], partition)), equals[0])
        for each in equals:
            heappush(heap, (least + 1, each[1]) if each is near else each)
        self._give(near[1], partition)

    def _is_near(self, member_id: str, partition: _Partition) -> bool:
        topic_id, number = partition
        return self._group.topics[topic_id].is_near(number, self._group.members[member_id].rack)

    # Evening out

    def even_out(self) -> None:
        """Move partitions while some member has at least two more than another that could have one of them.

        Every move makes the sum of squares of the members' loads smaller, so this ends.
        """
        moved = True
        while moved:
            moved = False
            for member_id in sorted(self._held, key=lambda each: -len(self._held[each])):
                for partition in list(self._held[member_id]):
                    other = min(self._readers[partition[0]], key=lambda each: (len(self._held[each]), each))
                    if len(self._held[other]) + 2 <= len(self._held[member_id]):
                        del self._held[member_id][partition]
                        self._held[other][partition] = None
                        moved = True
