"""Range: each topic by itself, contiguous runs of partitions in the order of the members.

Members that read the same topics get the same partition numbers of each, which joins of co-partitioned topics need. Ten
partitions over three members are 4, 3 and 3.
"""

from collections.abc import Mapping

from highwater.groups.consumer.assignment import Assignment
from highwater.groups.consumer.assignors.spec import GroupSpec
from highwater.model.ids import TopicId


def assign_ranges(group: GroupSpec) -> Mapping[str, Assignment]:
    """Assign; a static member keeps its place in the order over restarts, because it goes by its instance id."""
    order = sorted(group.members, key=lambda member_id: (group.members[member_id].instance_id or member_id, member_id))
    assigned: dict[str, dict[TopicId, frozenset[int]]] = {member_id: {} for member_id in group.members}
    for topic_id, topic in group.topics.items():
        readers = [member_id for member_id in order if topic_id in group.members[member_id].topics]
        if not readers:
            continue
        each, extra = divmod(topic.partition_count, len(readers))
        first = 0
        for number, member_id in enumerate(readers):
            count = each + (number < extra)
            if count:
                assigned[member_id][topic_id] = frozenset(range(first, first + count))
            first += count
    return assigned
