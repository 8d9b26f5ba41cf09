"""ConsumerGroupHeartbeat: a member joins, reports, or leaves, and is told what it should have.

The order of a report: who is it, what did it change, is there a new epoch, what is the target, one step towards it.
Everything that can be refused is refused before anything changes.
"""

from collections.abc import Sequence
from typing import NamedTuple

from highwater.groups.causes import CauseKind, RebalanceCause
from highwater.groups.changes import Changes
from highwater.groups.consumer import records
from highwater.groups.consumer.assignment import Assignment, from_messages, is_within, to_messages
from highwater.groups.consumer.group import ConsumerGroup
from highwater.groups.consumer.member import (
    AWAY_EPOCH,
    JOINING_EPOCH,
    LEAVING_EPOCH,
    ConsumerMember,
    Subscription,
)
from highwater.groups.consumer.rebalance import (
    assign,
    raise_epoch,
    reconcile,
    remove,
    renew_session,
    resolve_regexes,
    topics_have_changed,
)
from highwater.groups.consumer.reconciliation import position_of
from highwater.groups.consumer.seats import take_over_seat
from highwater.groups.consumer.topics import compiled
from highwater.groups.shard import GroupShard
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.consumer_group_heartbeat import (
    Assignment as AssignmentMessage,
)
from highwater.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

MEMBER_ID_REQUIRED_FROM = 1


class Reporter(NamedTuple):
    """A heartbeat and who sent it; `fresh_member_id` is for version 0, where a member need not bring one."""

    request: ConsumerGroupHeartbeatRequest
    version: int
    client_id: str
    client_host: str
    fresh_member_id: str


def heartbeat(shard: GroupShard, reporter: Reporter, changes: Changes) -> ConsumerGroupHeartbeatResponse:
    """Take one heartbeat that has passed `check_request`; raises KafkaError for those that are refused."""
    if reporter.request.member_epoch in {LEAVING_EPOCH, AWAY_EPOCH}:
        return _leave(shard, reporter.request, changes)
    return _Report(shard, reporter, changes).run()


# Checks -------------------------------------------------------------------------------------------------------------


def check_request(reporter: Reporter, *, assignors: Sequence[str]) -> None:
    """Refuse what makes no sense, whatever the group is."""
    request = reporter.request
    _require(bool(request.group_id), "GroupId can't be empty.")
    _require(bool(request.member_id) or reporter.version < MEMBER_ID_REQUIRED_FROM, "MemberId can't be empty.")
    _require(request.instance_id != "", "InstanceId can't be empty.")
    _require(request.rack_id != "", "RackId can't be empty.")
    if request.member_epoch == JOINING_EPOCH:
        _require(request.rebalance_timeout_ms != -1, "RebalanceTimeoutMs must be provided when joining.")
        _require(request.topic_partitions == [], "TopicPartitions must be empty when joining.")
        named = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        _require(named, "SubscribedTopicNames or SubscribedTopicRegex must be provided when joining.")
    else:
        _require(bool(request.member_id), "MemberId can't be empty.")
    _require(request.member_epoch >= AWAY_EPOCH, f"MemberEpoch {request.member_epoch} is invalid.")
    if request.member_epoch == AWAY_EPOCH:
        _require(request.instance_id is not None, "InstanceId can't be null.")
    if request.server_assignor is not None and request.server_assignor not in assignors:
        raise KafkaError(
            f"ServerAssignor {request.server_assignor} is not supported. Supported assignors: {', '.join(assignors)}.",
            code=ErrorCode.UNSUPPORTED_ASSIGNOR,
        )
    if request.subscribed_topic_regex:
        compiled(request.subscribed_topic_regex)


def _require(condition: bool, otherwise: str) -> None:  # noqa: FBT001 - reads as a sentence
    if not condition:
        raise KafkaError(otherwise, code=ErrorCode.INVALID_REQUEST)


def check_epoch(member: ConsumerMember, epoch: int, owned: Assignment | None) -> None:
    """Refuse a member that speaks of another epoch than the one it is at.

    It may be one behind, if the answer that told it so was lost; then it still has no more than it was given before.
    """
    if epoch == member.epoch:
        return
    if epoch == member.previous_epoch and owned is not None and is_within(owned, member.assigned):
        return
    raise KafkaError(
        f"the member is at epoch {member.epoch}, not {epoch}; it must give up its partitions and rejoin",
        code=ErrorCode.FENCED_MEMBER_EPOCH,
    )


def _unknown_member(member_id: str) -> KafkaError:
    return KafkaError(f"{member_id} is not a member of the group", code=ErrorCode.UNKNOWN_MEMBER_ID)


def _fenced_instance(instance_id: str) -> KafkaError:
    return KafkaError(f"another member holds the instance id {instance_id}", code=ErrorCode.FENCED_INSTANCE_ID)


# Leaving ------------------------------------------------------------------------------------------------------------


def _leave(
    shard: GroupShard, request: ConsumerGroupHeartbeatRequest, changes: Changes
) -> ConsumerGroupHeartbeatResponse:
    group = shard.groups.get(request.group_id)
    if not isinstance(group, ConsumerGroup):
        raise KafkaError(f"there is no consumer group {request.group_id}", code=ErrorCode.GROUP_ID_NOT_FOUND)
    if request.instance_id is None:
        member = group.members.get(request.member_id)
    else:
        member = group.static_member(request.instance_id)
        if member is not None and member.member_id != request.member_id:
            raise _fenced_instance(request.instance_id)
    if member is None:
        raise _unknown_member(request.member_id)
    if request.member_epoch == AWAY_EPOCH:
        # It means to come back: its partitions stay its own until its session ends (KIP-345).
        away = position_of(member)._replace(epoch=AWAY_EPOCH)
        changes.add(records.current(group.group_id, member.member_id, away, previous_epoch=member.epoch))
    else:
        cause = RebalanceCause(CauseKind.MEMBER_LEFT, (member.member_id,))
        remove(group, [member], cause, shard.topics, changes)
    return ConsumerGroupHeartbeatResponse(member_id=request.member_id, member_epoch=request.member_epoch)


# Joining and reporting ----------------------------------------------------------------------------------------------


class _Report:
    """One heartbeat on its way through its group."""

    __slots__ = ("_changes", "_member_id", "_owned", "_reporter", "_request", "_shard", "_topics")

    def __init__(self, shard: GroupShard, reporter: Reporter, changes: Changes) -> None:
        self._shard = shard
        self._reporter = reporter
        self._request = reporter.request
        self._topics = shard.topics
        self._changes = changes
        self._member_id = self._request.member_id or reporter.fresh_member_id
        owned = self._request.topic_partitions
        self._owned = None if owned is None else from_messages(owned)

    @property
    def _is_joining(self) -> bool:
        return self._request.member_epoch == JOINING_EPOCH

    def run(self) -> ConsumerGroupHeartbeatResponse:
        group = self._find_group()
        self._check_room(group)
        member = self._find_member(group)
        had = None if member is None else member.assigned
        member = self._update_subscription(group, member)
        group = self._shard.consumer_group(group.group_id)
        assign(group, self._topics, self._changes, assignors=self._shard.settings.consumer_assignors)
        reconcile(group, member, self._owned, self._changes)
        renew_session(group, member, self._shard.timing_of(group.group_id), self._changes.now_ms)
        return self._answer(member, tell_assignment=self._is_full or member.assigned != had)

    @property
    def _is_full(self) -> bool:
        """Whether the member says everything, as it does when it joins or does not know whether it was heard."""
        request = self._request
        subscribes = request.subscribed_topic_names is not None or request.subscribed_topic_regex is not None
        return self._is_joining or (request.rebalance_timeout_ms != -1 and subscribes and self._owned is not None)

    def _answer(self, member: ConsumerMember, *, tell_assignment: bool) -> ConsumerGroupHeartbeatResponse:
        return ConsumerGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._shard.timing_of(self._request.group_id).heartbeat_interval_ms,
            assignment=AssignmentMessage(topic_partitions=to_messages(member.assigned, TopicPartitions))
            if tell_assignment
            else None,
        )

    # Who

    def _find_group(self) -> ConsumerGroup:
        """Return the group; a member that joins makes it. A classic group with members cannot be joined this way."""
        group = self._shard.groups.get(self._request.group_id)
        if isinstance(group, ConsumerGroup):
            return group
        if group is not None or not self._is_joining:
            raise KafkaError(f"there is no consumer group {self._request.group_id}", code=ErrorCode.GROUP_ID_NOT_FOUND)
        return ConsumerGroup(self._request.group_id)

    def _check_room(self, group: ConsumerGroup) -> None:
        limit = self._shard.settings.consumer_max_size
        is_known = self._member_id in group.members or self._request.instance_id in group.static_members
        if len(group.members) >= limit and not is_known:
            raise KafkaError(f"the group has {limit} members already", code=ErrorCode.GROUP_MAX_SIZE_REACHED)

    def _find_member(self, group: ConsumerGroup) -> ConsumerMember | None:
        """Return the member that reports, or None for one that is new; refuse those who are not whom they say."""
        instance_id = self._request.instance_id
        member = group.members.get(self._member_id) if instance_id is None else group.static_member(instance_id)
        if member is None:
            if self._is_joining:
                return None
            raise _unknown_member(self._member_id)
        if member.member_id != self._member_id:
            assert instance_id is not None
            return self._take_over_seat(group, member, instance_id)
        if not self._is_joining:
            check_epoch(member, self._request.member_epoch, self._owned)
        # A known member that joins anew has lost its memory. It owns nothing, as it had to say, so nothing can go
        # wrong; Kafka 4.1 fences it until its session ends.
        return member

    def _take_over_seat(self, group: ConsumerGroup, away: ConsumerMember, instance_id: str) -> ConsumerMember:
        """Let a static member that went away come back under its new id; refuse if its seat is taken."""
        if not self._is_joining:
            raise _fenced_instance(instance_id)
        if away.epoch != AWAY_EPOCH:
            raise KafkaError(
                f"the instance id {instance_id} is held by {away.member_id}", code=ErrorCode.UNRELEASED_INSTANCE_ID
            )
        return take_over_seat(group, away, self._member_id, self._changes)

    # What

    def _update_subscription(self, group: ConsumerGroup, member: ConsumerMember | None) -> ConsumerMember:
        """Write down what the member changed; raise the epoch if that, or a topic, matters to the assignment."""
        changes, topics = self._changes, self._topics
        before = Subscription() if member is None else member.subscription
        after = self._subscription(before)
        is_new = member is None
        if is_new or after != before:
            changes.add(records.subscribed(group.group_id, self._member_id, after))
            group = self._shard.consumer_group(group.group_id)
        reads_differently = (after.topic_names, after.topic_regex) != (before.topic_names, before.topic_regex)
        if is_new or reads_differently:
            resolve_regexes(group, topics, changes)
            group.topics_version = topics.version
            kind = CauseKind.MEMBER_JOINED if is_new else CauseKind.MEMBER_CHANGED
            raise_epoch(group, RebalanceCause(kind, (self._member_id,)), topics, changes)
        elif topics_have_changed(group, topics, changes):
            raise_epoch(group, RebalanceCause(CauseKind.TOPICS_CHANGED), topics, changes)
        return group.members[self._member_id]

    def _subscription(self, before: Subscription) -> Subscription:
        """Return what the member is now: what it did not say has not changed."""
        request = self._request
        return Subscription(
            instance_id=before.instance_id if request.instance_id is None else request.instance_id,
            rack_id=before.rack_id if request.rack_id is None else request.rack_id,
            client_id=self._reporter.client_id,
            client_host=self._reporter.client_host,
            topic_names=before.topic_names
            if request.subscribed_topic_names is None
            else frozenset(request.subscribed_topic_names),
            topic_regex=before.topic_regex
            if request.subscribed_topic_regex is None
            else request.subscribed_topic_regex,
            rebalance_timeout_ms=before.rebalance_timeout_ms
            if request.rebalance_timeout_ms == -1
            else request.rebalance_timeout_ms,
            assignor=before.assignor if request.server_assignor is None else request.server_assignor,
        )
