"""Members of a consumer group that still speak the classic protocol, while the group moves from one to the other.

They join, sync and send heartbeats as ever. The coordinator assigns for them, so none of them is told that it leads,
and a rebalance concerns only those for whom something changes.
"""

from collections.abc import Iterable

from highwater.groups.causes import CauseKind, RebalanceCause
from highwater.groups.changes import Changes
from highwater.groups.classic.group import CONSUMER_PROTOCOL
from highwater.groups.classic.join import KNOWN_MEMBER_ID_SINCE, Joiner, refused
from highwater.groups.classic.member import NO_MEMBER_ID
from highwater.groups.classic.outcome import Answer
from highwater.groups.consumer import records
from highwater.groups.consumer.assignment import NOTHING, Assignment, pairs, without
from highwater.groups.consumer.group import ConsumerGroup
from highwater.groups.consumer.member import AWAY_EPOCH, NEVER_MS, ClassicPart, ConsumerMember, Subscription
from highwater.groups.consumer.rebalance import (
    assign,
    raise_epoch,
    reconcile,
    renew_session,
    resolve_regexes,
    topics_have_changed,
)
from highwater.groups.consumer.seats import take_over_seat
from highwater.groups.consumer.states import MemberState
from highwater.groups.consumer.topics import TopicsView
from highwater.groups.shard import GroupShard
from highwater.groups.subscription import read_subscription, write_assignment
from highwater.model.errors import ErrorCode
from highwater.model.ids import TopicId
from highwater.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, TopicPartitions
from highwater.protocol.messages.join_group import JoinGroupResponse
from highwater.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse


def check_member(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """Return NONE if this is a member that speaks the classic protocol, and holds `instance_id` if it says so."""
    if instance_id is not None:
        holder = group.static_members.get(instance_id)
        if holder is None:
            return ErrorCode.UNKNOWN_MEMBER_ID
        if holder != member_id:
            return ErrorCode.FENCED_INSTANCE_ID
    member = group.members.get(member_id)
    if member is None or member.subscription.classic is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE


def check_leaver(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ErrorCode:
    """Return NONE if a member may be taken out by LeaveGroup; an administrator may take out any static member."""
    if instance_id is not None and group.static_members.get(instance_id) == member_id and member_id != NO_MEMBER_ID:
        return ErrorCode.NONE
    return check_member(group, member_id, instance_id)


def must_rejoin(group: ConsumerGroup, member: ConsumerMember) -> bool:
    """Whether there is something new for a member: an epoch, partitions to give up, or ones that are free by now."""
    if member.epoch < group.epoch or member.state is MemberState.UNREVOKED_PARTITIONS:
        return True
    if member.state is MemberState.STABLE:
        return False
    missing = pairs(without(group.target_of(member.member_id), member.assigned))
    return any(group.owners.get(partition, member.member_id) == member.member_id for partition in missing)


def heartbeat(
    shard: GroupShard,
    group: ConsumerGroup,
    *,
    member_id: str,
    instance_id: str | None,
    generation: int,
    now_ms: int,
) -> ErrorCode:
    """Renew the member's session; one that must rejoin has its rebalance timeout for that."""
    error = check_member(group, member_id, instance_id)
    if error:
        return error
    member = group.members[member_id]
    if generation != member.epoch:
        return ErrorCode.ILLEGAL_GENERATION
    renew_session(group, member, shard.timing_of(group.group_id), now_ms)
    if not must_rejoin(group, member):
        return ErrorCode.NONE
    if member.act_by_ms == NEVER_MS:
        _ask_to_act(group, member, now_ms)
    return ErrorCode.REBALANCE_IN_PROGRESS


def sync(group: ConsumerGroup, request: SyncGroupRequest, topics: TopicsView) -> SyncGroupResponse:
    """Return what the member has, in the words of a classic leader."""
    error = check_member(group, request.member_id, request.group_instance_id)
    if error:
        return SyncGroupResponse(error_code=error)
    member = group.members[request.member_id]
    classic = member.subscription.classic
    assert classic is not None
    protocol = classic.protocols[0]
    if request.generation_id != member.epoch:
        return SyncGroupResponse(error_code=ErrorCode.ILLEGAL_GENERATION)
    if request.protocol_type not in {None, CONSUMER_PROTOCOL} or request.protocol_name not in {None, protocol.name}:
        return SyncGroupResponse(error_code=ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if group.epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
        return SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS)
    member.act_by_ms = NEVER_MS
    return SyncGroupResponse(
        protocol_type=CONSUMER_PROTOCOL,
        protocol_name=protocol.name,
        assignment=write_assignment(named(member.assigned, topics), like=protocol.metadata),
    )


def named(assignment: Assignment, topics: TopicsView) -> dict[str, frozenset[int]]:
    """Return an assignment by the names of its topics; those that are gone are left out."""
    by_name = {topics.name_of(topic_id): partitions for topic_id, partitions in assignment.items()}
    return {name: partitions for name, partitions in by_name.items() if name is not None}


def by_id(entries: Iterable[TopicPartitions], topics: TopicsView) -> Assignment:
    """Return what a classic message says by names; topics that are gone are left out."""
    found: dict[TopicId, frozenset[int]] = {}
    for entry in entries:
        info = topics.named(entry.topic)
        if info is not None and entry.partitions:
            found[info.id] = found.get(info.id, frozenset()) | frozenset(entry.partitions)
    return found


def _ask_to_act(group: ConsumerGroup, member: ConsumerMember, now_ms: int) -> None:
    member.act_by_ms = now_ms + member.subscription.rebalance_timeout_ms
    group.wake_by(member.act_by_ms)


# Joining ------------------------------------------------------------------------------------------------------------


def join(shard: GroupShard, group: ConsumerGroup, joiner: Joiner, changes: Changes) -> Answer:
    """Take a JoinGroup: the answer never waits, because the coordinator does not need the others to assign."""
    request = joiner.request
    subscription = read_subscription(request.protocols[0].metadata) if request.protocols else None
    if subscription is None or not _shares_a_protocol(group, joiner):
        return refused(joiner, ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    seat = None if request.group_instance_id is None else group.static_member(request.group_instance_id)
    is_known = seat is not None or request.member_id in group.members
    if not is_known and len(group.members) >= shard.settings.consumer_max_size:
        return refused(joiner, ErrorCode.GROUP_MAX_SIZE_REACHED, member_id=NO_MEMBER_ID)
    if seat is not None and request.member_id not in {NO_MEMBER_ID, seat.member_id}:
        return refused(joiner, ErrorCode.FENCED_INSTANCE_ID)
    needs_id = request.member_id == NO_MEMBER_ID
    if needs_id and request.group_instance_id is None and joiner.version >= KNOWN_MEMBER_ID_SINCE:
        return refused(joiner, ErrorCode.MEMBER_ID_REQUIRED, member_id=joiner.fresh_member_id)
    if needs_id and seat is not None and seat.subscription.classic is None and seat.epoch != AWAY_EPOCH:
        return refused(joiner, ErrorCode.UNRELEASED_INSTANCE_ID)
    member_id = joiner.fresh_member_id if needs_id else request.member_id
    if needs_id and seat is not None:
        take_over_seat(group, seat, member_id, changes)
    member = _update(shard, group, member_id, joiner, subscription, changes)
    return Answer(
        joiner.ticket,
        JoinGroupResponse(
            generation_id=member.epoch,
            protocol_type=CONSUMER_PROTOCOL,
            protocol_name=request.protocols[0].name,
            member_id=member_id,
        ),
    )


def _shares_a_protocol(group: ConsumerGroup, joiner: Joiner) -> bool:
    """Whether the members that speak the classic protocol could agree, should the group fall back to it."""
    if joiner.request.protocol_type != CONSUMER_PROTOCOL:
        return False
    shared = {offer.name for offer in joiner.protocols}
    for member in group.members.values():
        classic = member.subscription.classic
        if classic is not None and member.member_id != joiner.request.member_id:
            shared &= {offer.name for offer in classic.protocols}
    return bool(shared)


def _update(
    shard: GroupShard,
    group: ConsumerGroup,
    member_id: str,
    joiner: Joiner,
    said: ConsumerProtocolSubscription,
    changes: Changes,
) -> ConsumerMember:
    topics = shard.topics
    known = group.members.get(member_id)
    before = None if known is None else known.subscription
    after = Subscription(
        instance_id=joiner.request.group_instance_id,
        rack_id=said.rack_id,
        client_id=joiner.client_id,
        client_host=joiner.client_host,
        topic_names=frozenset(said.topics),
        rebalance_timeout_ms=joiner.rebalance_timeout_ms,
        classic=ClassicPart(joiner.request.session_timeout_ms, joiner.protocols),
    )
    if after != before:
        changes.add(records.subscribed(group.group_id, member_id, after))
    if before is None or after.topic_names != before.topic_names or before.topic_regex:
        resolve_regexes(group, topics, changes)
        group.topics_version = topics.version
        kind = CauseKind.MEMBER_JOINED if before is None else CauseKind.MEMBER_CHANGED
        raise_epoch(group, joiner.cause(kind, member_id), topics, changes)
    elif topics_have_changed(group, topics, changes):
        raise_epoch(group, RebalanceCause(CauseKind.TOPICS_CHANGED), topics, changes)
    member = group.members[member_id]
    assign(group, topics, changes, assignors=shard.settings.consumer_assignors)
    reconcile(group, member, _owned(member, said, topics), changes)
    renew_session(group, member, shard.timing_of(group.group_id), changes.now_ms)
    _ask_to_act(group, member, changes.now_ms)
    return member


def _owned(member: ConsumerMember, said: ConsumerProtocolSubscription, topics: TopicsView) -> Assignment:
    """Return what the member still has: nothing, unless it is cooperative and speaks of its current generation."""
    if said.generation_id not in {-1, member.epoch}:
        return NOTHING
    return by_id(said.owned_partitions, topics)
