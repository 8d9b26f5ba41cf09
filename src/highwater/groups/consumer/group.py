"""A consumer group: its members, its target assignment and who has which partition."""

from collections import Counter
from collections.abc import Iterable

from highwater.groups.consumer.assignment import NOTHING, Assignment, pairs
from highwater.groups.consumer.member import LEAVING_EPOCH, NEVER_MS, ConsumerMember, Subscription
from highwater.groups.consumer.reconciliation import Position
from highwater.groups.consumer.states import ConsumerGroupState
from highwater.model.ids import TopicId

UNCHECKED = -1
"""A version of the topics that is never the current one."""


class ConsumerGroup:
    """One group. Everything but the deadlines and `topics_version` changes by records alone.

    Invariants: a partition has at most one owner; a member's epoch is never above the target's, nor that above the
    group's.
    """

    __slots__ = (
        "_subscribers",
        "epoch",
        "group_id",
        "members",
        "metadata_hash",
        "owners",
        "regexes",
        "static_members",
        "target_epoch",
        "targets",
        "topics_version",
        "wake_at_ms",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.target_epoch = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_members: dict[str, str] = {}
        self.targets: dict[str, Assignment] = {}
        self.owners: dict[tuple[TopicId, int], str] = {}
        self.regexes: dict[str, frozenset[str]] = {}
        self.topics_version = UNCHECKED
        self.wake_at_ms = NEVER_MS
        self._subscribers: Counter[str] = Counter()

    # Questions ------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        """How far the group is on its way to its newest epoch."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if not all(member.has_reached(self.target_epoch) for member in self.members.values()):
            return ConsumerGroupState.RECONCILING
        return ConsumerGroupState.STABLE

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        """Return the member that holds an instance id."""
        member_id = self.static_members.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def topics_of(self, subscription: Subscription) -> frozenset[str]:
        """Return the topics that a member reads, by name and by pattern."""
        if not subscription.topic_regex:
            return subscription.topic_names
        return subscription.topic_names | self.regexes.get(subscription.topic_regex, frozenset())

    def subscribed_topics(self) -> frozenset[str]:
        """Return every topic that any member reads."""
        return frozenset(self._subscribers).union(*self.regexes.values())

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether any member reads the topic."""
        return topic in self._subscribers or any(topic in topics for topics in self.regexes.values())

    def regexes_in_use(self) -> set[str]:
        """Return the patterns that members subscribe by."""
        return {member.subscription.topic_regex for member in self.members.values()} - {""}

    def preferred_assignor(self, known: Iterable[str]) -> str:
        """Return the assignor that most members ask for; the first that we know if they ask for none."""
        order = tuple(known)
        votes = Counter(
            member.subscription.assignor for member in self.members.values() if member.subscription.assignor in order
        )
        return max(order, key=lambda name: votes[name])

    def target_of(self, member_id: str) -> Assignment:
        """Return what a member should have."""
        return self.targets.get(member_id, NOTHING)

    # Deadlines ------------------------------------------------------------------------------------------------------

    def wake_by(self, deadline_ms: int) -> None:
        """See to it that `tick` is called at `deadline_ms` or earlier."""
        self.wake_at_ms = min(self.wake_at_ms, deadline_ms)

    def earliest_deadline_ms(self) -> int:
        """Return when something is due next; O(members), so it is asked for on a tick and not on a heartbeat."""
        deadlines = (min(member.expires_at_ms, member.act_by_ms) for member in self.members.values())
        return min(deadlines, default=NEVER_MS)

    # What records do ------------------------------------------------------------------------------------------------

    def set_subscription(self, member_id: str, subscription: Subscription) -> None:
        """Let a member be what its record says; it is made if need be."""
        member = self.members.setdefault(member_id, ConsumerMember(member_id))
        self._unsubscribe(member)
        member.subscription = subscription
        self._subscribers.update(subscription.topic_names)
        if subscription.instance_id is not None:
            self.static_members[subscription.instance_id] = member_id

    def remove_member(self, member_id: str) -> None:
        """Forget a member and free what it had."""
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._unsubscribe(member)
        self._release(member)
        self.targets.pop(member_id, None)

    def set_position(self, member_id: str, position: Position, *, previous_epoch: int) -> None:
        """Let a member have what its record says, and free what it no longer has."""
        member = self.members.setdefault(member_id, ConsumerMember(member_id))
        self._release(member)
        member.epoch, member.state, member.assigned, member.revoking = position
        member.previous_epoch = previous_epoch
        for held in (member.assigned, member.revoking):
            for partition in pairs(held):
                self.owners[partition] = member_id

    def clear_position(self, member_id: str) -> None:
        """Take everything from a member that is about to go."""
        member = self.members.get(member_id)
        if member is not None:
            self._release(member)
            member.epoch, member.assigned, member.revoking = LEAVING_EPOCH, NOTHING, NOTHING

    def _release(self, member: ConsumerMember) -> None:
        for held in (member.assigned, member.revoking):
            for partition in pairs(held):
                if self.owners.get(partition) == member.member_id:
                    del self.owners[partition]

    def _unsubscribe(self, member: ConsumerMember) -> None:
        for topic in member.subscription.topic_names:
            self._subscribers[topic] -= 1
            if not self._subscribers[topic]:
                del self._subscribers[topic]
        instance_id = member.subscription.instance_id
        if instance_id is not None and self.static_members.get(instance_id) == member.member_id:
            del self.static_members[instance_id]
