"""The classic protocol's requests, each taken to the group that it names.

Times are of a clock that never jumps (the loop's): a wall clock that does must not end anybody's session.
"""

from collections.abc import Sequence

from highwater.groups.causes import CauseKind, RebalanceCause
from highwater.groups.classic import heartbeat as classic_heartbeat
from highwater.groups.classic import join as classic_join
from highwater.groups.classic import leave as classic_leave
from highwater.groups.classic import sync as classic_sync
from highwater.groups.classic import timeouts
from highwater.groups.classic.member import NO_MEMBER_ID
from highwater.groups.classic.outcome import Outcome
from highwater.groups.classic.rebalance import begin
from highwater.groups.shard import GroupShard
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.heartbeat import HeartbeatRequest
from highwater.protocol.messages.leave_group import MemberIdentity, MemberResponse


def join(shard: GroupShard, joiner: classic_join.Joiner, *, now_ms: int) -> Outcome:
    """Take a JoinGroup to its group. One without a member id makes the group if there is none."""
    outcome = Outcome()
    settings, request = shard.settings, joiner.request
    group = shard.groups.get(request.group_id)
    if not request.group_id:
        outcome.answers.append(classic_join.refused(joiner, ErrorCode.INVALID_GROUP_ID))
    elif not settings.min_session_timeout_ms <= request.session_timeout_ms <= settings.max_session_timeout_ms:
        outcome.answers.append(classic_join.refused(joiner, ErrorCode.INVALID_SESSION_TIMEOUT))
    elif group is None and request.member_id != NO_MEMBER_ID:
        outcome.answers.append(classic_join.refused(joiner, ErrorCode.UNKNOWN_MEMBER_ID))
    else:
        group = group or shard.classic_group(request.group_id)
        classic_join.Joining(group, joiner, settings=settings, now_ms=now_ms, outcome=outcome).run()
    return outcome


def sync(shard: GroupShard, syncer: classic_sync.Syncer, *, now_ms: int) -> Outcome:
    """Take a SyncGroup to its group."""
    outcome = Outcome()
    group = shard.groups.get(syncer.request.group_id)
    if not syncer.request.group_id:
        outcome.answers.append(classic_sync.refused(syncer, ErrorCode.INVALID_GROUP_ID))
    elif group is None:
        outcome.answers.append(classic_sync.refused(syncer, ErrorCode.UNKNOWN_MEMBER_ID))
    else:
        classic_sync.sync(group, syncer, settings=shard.settings, now_ms=now_ms, outcome=outcome)
    return outcome


def heartbeat(shard: GroupShard, request: HeartbeatRequest, *, now_ms: int) -> ErrorCode:
    """Take a Heartbeat to its group."""
    group = shard.groups.get(request.group_id)
    if group is None:
        return ErrorCode.UNKNOWN_MEMBER_ID if request.group_id else ErrorCode.INVALID_GROUP_ID
    return classic_heartbeat.heartbeat(
        group,
        member_id=request.member_id,
        instance_id=request.group_instance_id,
        generation=request.generation_id,
        now_ms=now_ms,
    )


def leave(
    shard: GroupShard, group_id: str, leavers: Sequence[MemberIdentity], *, now_ms: int
) -> tuple[list[MemberResponse], Outcome]:
    """Take a LeaveGroup to its group; return one answer for each who leaves."""
    outcome = Outcome()
    group = shard.groups.get(group_id)
    if group is not None:
        return (
            classic_leave.leave(group, leavers, settings=shard.settings, now_ms=now_ms, outcome=outcome),
            outcome,
        )
    error = ErrorCode.UNKNOWN_MEMBER_ID if group_id else ErrorCode.INVALID_GROUP_ID
    answers = [
        MemberResponse(member_id=each.member_id, group_instance_id=each.group_instance_id, error_code=error)
        for each in leavers
    ]
    return answers, outcome


def tick(shard: GroupShard, group_id: str, *, now_ms: int) -> Outcome:
    """Do what is due in a group by now."""
    outcome = Outcome()
    group = shard.groups.get(group_id)
    if group is not None:
        timeouts.tick(group, settings=shard.settings, now_ms=now_ms, outcome=outcome)
    return outcome


def take_over(shard: GroupShard, group_id: str, *, now_ms: int) -> Outcome:
    """Look at a group that was just loaded: one that is over a limit lowered since must shrink."""
    outcome = Outcome()
    group = shard.groups[group_id]
    if len(group.members) > shard.settings.max_group_size:
        detail = f"{len(group.members)} members; group.max.size is {shard.settings.max_group_size}"
        cause = RebalanceCause(CauseKind.GROUP_TOO_LARGE, detail=detail)
        begin(group, cause, settings=shard.settings, now_ms=now_ms, outcome=outcome)
    return outcome
