"""Requests about membership, each taken to the group that it names, of whichever kind that is.

`now_ms` is of a clock that never jumps (the loop's): a wall clock that does must not end anybody's session.
"""

from collections.abc import Sequence

from highwater.groups.causes import CauseKind, RebalanceCause
from highwater.groups.changes import Changes
from highwater.groups.classic import heartbeat as classic_heartbeat
from highwater.groups.classic import join as classic_join
from highwater.groups.classic import leave as classic_leave
from highwater.groups.classic import sync as classic_sync
from highwater.groups.classic import timeouts as classic_timeouts
from highwater.groups.classic.group import ClassicGroup
from highwater.groups.classic.member import NO_MEMBER_ID
from highwater.groups.classic.outcome import Answer, Outcome
from highwater.groups.classic.rebalance import begin
from highwater.groups.consumer import classic_members
from highwater.groups.consumer import heartbeat as consumer_heartbeat
from highwater.groups.consumer import timeouts as consumer_timeouts
from highwater.groups.consumer.group import ConsumerGroup
from highwater.groups.consumer.member import JOINING_EPOCH
from highwater.groups.consumer.rebalance import remove
from highwater.groups.migration import can_upgrade, downgrade, must_downgrade, upgrade
from highwater.groups.removal import is_empty, tombstones
from highwater.groups.shard import GroupShard
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatResponse
from highwater.protocol.messages.heartbeat import HeartbeatRequest
from highwater.protocol.messages.leave_group import MemberIdentity, MemberResponse

# The classic protocol -----------------------------------------------------------------------------------------------


def join(shard: GroupShard, joiner: classic_join.Joiner, changes: Changes, outcome: Outcome) -> None:
    """Take a JoinGroup to its group. One without a member id makes the group if there is none."""
    settings, request = shard.settings, joiner.request
    group = shard.groups.get(request.group_id)
    if not request.group_id:
        outcome.answers.append(classic_join.refused(joiner, ErrorCode.INVALID_GROUP_ID))
    elif not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        outcome.answers.append(classic_join.refused(joiner, ErrorCode.INVALID_SESSION_TIMEOUT))
    elif isinstance(group, ConsumerGroup) and group.members:
        outcome.answers.append(classic_members.join(shard, group, joiner, changes))
    elif group is None and request.member_id != NO_MEMBER_ID:
        outcome.answers.append(classic_join.refused(joiner, ErrorCode.UNKNOWN_MEMBER_ID))
    else:
        if isinstance(group, ConsumerGroup):
            changes.add(*tombstones(group))
        classic = shard.classic_group(request.group_id)
        classic_join.Joining(classic, joiner, settings=settings, now_ms=changes.now_ms, outcome=outcome).run()


def sync(shard: GroupShard, syncer: classic_sync.Syncer, *, now_ms: int, outcome: Outcome) -> None:
    """Take a SyncGroup to its group."""
    group = shard.groups.get(syncer.request.group_id)
    if not syncer.names_its_protocol:
        outcome.answers.append(classic_sync.refused(syncer, ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
    elif isinstance(group, ClassicGroup):
        classic_sync.sync(group, syncer, settings=shard.settings, now_ms=now_ms, outcome=outcome)
    elif isinstance(group, ConsumerGroup):
        outcome.answers.append(Answer(syncer.ticket, classic_members.sync(group, syncer.request, shard.topics)))
    else:
        error = ErrorCode.UNKNOWN_MEMBER_ID if syncer.request.group_id else ErrorCode.INVALID_GROUP_ID
        outcome.answers.append(classic_sync.refused(syncer, error))


def heartbeat(shard: GroupShard, request: HeartbeatRequest, *, now_ms: int) -> ErrorCode:
    """Take a Heartbeat to its group."""
    group = shard.groups.get(request.group_id)
    if isinstance(group, ClassicGroup):
        return classic_heartbeat.heartbeat(
            group,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id,
            now_ms=now_ms,
        )
    if isinstance(group, ConsumerGroup):
        return classic_members.heartbeat(
            shard,
            group,
            member_id=request.member_id,
            instance_id=request.group_instance_id,
            generation=request.generation_id,
            now_ms=now_ms,
        )
    return ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID


def leave(
    shard: GroupShard, group_id: str, leavers: Sequence[MemberIdentity], changes: Changes, outcome: Outcome
) -> list[MemberResponse]:
    """Take a LeaveGroup to its group; return one answer for each who leaves."""
    group = shard.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return classic_leave.leave(group, leavers, settings=shard.settings, now_ms=changes.now_ms, outcome=outcome)
    if isinstance(group, ConsumerGroup):
        return _leave_consumer_group(shard, group, leavers, changes, outcome)
    error = ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID
    return [_left(leaver, error) for leaver in leavers]


def _leave_consumer_group(
    shard: GroupShard,
    group: ConsumerGroup,
    leavers: Sequence[MemberIdentity],
    changes: Changes,
    outcome: Outcome,
) -> list[MemberResponse]:
    answers = []
    gone = []
    for leaver in leavers:
        member_id = leaver.member_id
        if member_id == NO_MEMBER_ID and leaver.group_instance_id is not None:
            member_id = group.static_members.get(leaver.group_instance_id, NO_MEMBER_ID)
        error = classic_members.check_leaver(group, member_id, leaver.group_instance_id)
        if not error:
            gone.append(group.members[member_id])
        answers.append(_left(leaver, error))
    if gone:
        reasons = dict.fromkeys(leaver.reason for leaver in leavers if leaver.reason)
        names = tuple(member.member_id for member in gone)
        cause = RebalanceCause(CauseKind.MEMBER_LEFT, names, ", ".join(reasons))
        remove(group, dict.fromkeys(gone), cause, shard.topics, changes)
        _downgrade_if_due(shard, group, changes, outcome)
    return answers


def _left(leaver: MemberIdentity, error: ErrorCode) -> MemberResponse:
    return MemberResponse(member_id=leaver.member_id, group_instance_id=leaver.group_instance_id, error_code=error)


# The consumer protocol ----------------------------------------------------------------------------------------------


def report(
    shard: GroupShard, reporter: consumer_heartbeat.Reporter, changes: Changes, outcome: Outcome
) -> ConsumerGroupHeartbeatResponse:
    """Take a ConsumerGroupHeartbeat to its group; raises KafkaError for those that are refused.

    The first member of this protocol that joins a classic group takes the whole group along, if that may be.
    """
    request = reporter.request
    consumer_heartbeat.check_request(reporter, assignors=shard.settings.consumer_assignors)
    group = shard.groups.get(request.group_id)
    if isinstance(group, ClassicGroup) and request.member_epoch == JOINING_EPOCH:
        if is_empty(group):
            changes.add(*tombstones(group))
        elif can_upgrade(shard, group):
            upgrade(shard, group, changes, outcome)
    response = consumer_heartbeat.heartbeat(shard, reporter, changes)
    group = shard.groups.get(request.group_id)
    if isinstance(group, ConsumerGroup):
        _downgrade_if_due(shard, group, changes, outcome)
    return response


def _downgrade_if_due(shard: GroupShard, group: ConsumerGroup, changes: Changes, outcome: Outcome) -> None:
    if must_downgrade(shard, group):
        downgrade(shard, group, changes, outcome)


# Time ---------------------------------------------------------------------------------------------------------------


def tick(shard: GroupShard, group_id: str, changes: Changes, outcome: Outcome) -> None:
    """Do what is due in a group by now."""
    group = shard.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        classic_timeouts.tick(group, settings=shard.settings, now_ms=changes.now_ms, outcome=outcome)
    elif isinstance(group, ConsumerGroup):
        consumer_timeouts.tick(group, shard.topics, changes)
        _downgrade_if_due(shard, group, changes, outcome)


def take_over(shard: GroupShard, group_id: str, changes: Changes, outcome: Outcome) -> None:
    """Look at a group that was just loaded: its members have a session to be heard from.

    One that is over a limit that was lowered since must shrink.
    """
    group = shard.groups[group_id]
    settings = shard.settings
    if isinstance(group, ConsumerGroup):
        session_timeout_ms = shard.timing_of(group_id).session_timeout_ms
        consumer_timeouts.take_over(group, session_timeout_ms=session_timeout_ms, now_ms=changes.now_ms)
    elif len(group.members) > settings.max_group_size:
        detail = f"{len(group.members)} members; group.max.size is {settings.max_group_size}"
        cause = RebalanceCause(CauseKind.GROUP_TOO_LARGE, detail=detail)
        begin(group, cause, settings=settings, now_ms=changes.now_ms, outcome=outcome)
