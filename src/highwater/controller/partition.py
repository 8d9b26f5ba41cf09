"""What the controller knows of one partition: where its replicas are and shall be, who leads, who is in sync."""

from __future__ import annotations

from typing import NamedTuple

from highwater.model.ids import NO_BROKER, BrokerId, LeaderEpoch, TopicId


class Leadership(NamedTuple):
    """Who leads since which epoch, and who is in sync: what is agreed upon by a conditional write."""

    leader: BrokerId
    epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]

    def moved(self, leader: BrokerId, isr: tuple[BrokerId, ...]) -> Leadership:
        """Return the next leadership. Every one has an epoch of its own, so that whoever holds an older is fenced."""
        assert leader == NO_BROKER or leader in isr, "a leader is in sync with itself"
        return Leadership(leader, LeaderEpoch(self.epoch + 1), isr)


class Assignment(NamedTuple):
    """The brokers that hold a partition, the preferred leader first.

    While it moves, `replicas` are those it shall have in the end followed by those that go (KIP-455).
    """

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()

    @property
    def is_moving(self) -> bool:
        """Whether replicas come or go."""
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """The brokers that hold it once it has moved."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)

    @property
    def origin(self) -> tuple[BrokerId, ...]:
        """The brokers that held it before it began to move."""
        return tuple(broker for broker in self.replicas if broker not in self.adding)

    def moving_to(self, target: tuple[BrokerId, ...]) -> Assignment:
        """Return the assignment on the way to `target`. A replica that was still being added is just dropped."""
        origin = self.origin
        replicas = (*target, *(broker for broker in origin if broker not in target))
        return Assignment(
            replicas,
            adding=tuple(broker for broker in target if broker not in origin),
            removing=tuple(broker for broker in origin if broker not in target),
        )


class ControlledPartition:
    """One partition, as it was last written or read."""

    __slots__ = ("assignment", "bounced", "broken", "has_moved", "leadership", "version")

    def __init__(self, assignment: Assignment, leadership: Leadership, version: int) -> None:
        self.assignment = assignment
        self.leadership = leadership
        self.version = version
        """Of its state, for the next conditional write."""
        self.broken: frozenset[BrokerId] = frozenset()
        """Brokers that are alive and cannot serve their replica: its disk failed."""
        self.bounced: frozenset[BrokerId] = frozenset()
        """Brokers that were gone since the state was written: what it says of their replicas may be true no more."""
        self.has_moved = False
        """The replicas that should go are being deleted: they have no part in it any more."""

    @property
    def holders(self) -> tuple[BrokerId, ...]:
        """The brokers that may lead, follow and be in sync."""
        return self.assignment.target if self.has_moved else self.assignment.replicas

    def assign(self, assignment: Assignment) -> None:
        """Let it be held, from now on or in the end, by others."""
        self.assignment, self.has_moved = assignment, False


class ControlledTopic:
    """One topic and its partitions by index."""

    __slots__ = ("allows_unclean", "id", "name", "partitions")

    def __init__(
        self, name: str, topic_id: TopicId, partitions: dict[int, ControlledPartition], *, allows_unclean: bool
    ) -> None:
        self.name = name
        self.id = topic_id
        self.partitions = partitions
        self.allows_unclean = allows_unclean
        """Whether a replica that is not in sync may lead when none that is in sync is left."""
