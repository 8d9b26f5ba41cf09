"""What an assignor is given."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from highwater.groups.consumer.assignment import Assignment
from highwater.model.ids import TopicId

Racks: TypeAlias = tuple[frozenset[str], ...]
"""For each partition of a topic, the racks that hold a replica; empty if racks are not known."""


class TopicSpec(NamedTuple):
    """A topic that some member reads."""

    partition_count: int
    racks: Racks = ()

    def is_near(self, partition: int, rack: str | None) -> bool:
        """Whether a replica of the partition is in this rack."""
        return rack is not None and partition < len(self.racks) and rack in self.racks[partition]


class MemberSpec(NamedTuple):
    """A member: what it reads, where it is, and what it was meant to have so far."""

    topics: frozenset[TopicId]
    assigned: Assignment
    rack: str | None = None
    instance_id: str | None = None


class GroupSpec(NamedTuple):
    """A group. Topics that no longer exist are in nobody's subscription."""

    members: Mapping[str, MemberSpec]
    topics: Mapping[TopicId, TopicSpec]


Assignor: TypeAlias = Callable[[GroupSpec], Mapping[str, Assignment]]
"""Every partition of every subscribed topic goes to exactly one member that reads the topic."""
