"""LeaveGroup: members go, by themselves or sent away by an administrator."""

from collections.abc import Sequence

from highwater.groups.causes import CauseKind, RebalanceCause
from highwater.groups.classic.group import ClassicGroup
from highwater.groups.classic.member import NO_MEMBER_ID
from highwater.groups.classic.outcome import Outcome
from highwater.groups.classic.rebalance import begin_or_complete, complete_if_all_joined
from highwater.groups.settings import GroupSettings
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.leave_group import MemberIdentity, MemberResponse


def leave(
    group: ClassicGroup, leavers: Sequence[MemberIdentity], *, settings: GroupSettings, now_ms: int, outcome: Outcome
) -> list[MemberResponse]:
    """Take out those who may go, in one rebalance; return one answer each, in the request's order."""
    before = len(group.members)
    errors = [_remove(group, leaver, outcome) for leaver in leavers]
    gone = [leaver for leaver, error in zip(leavers, errors, strict=True) if not error]
    if len(group.members) < before:
        names = tuple(leaver.member_id or leaver.group_instance_id or "" for leaver in gone)
        reasons = dict.fromkeys(leaver.reason for leaver in gone if leaver.reason)
        cause = RebalanceCause(CauseKind.MEMBER_LEFT, names, ", ".join(reasons))
        begin_or_complete(group, cause, settings=settings, now_ms=now_ms, outcome=outcome)
    else:
        complete_if_all_joined(group, now_ms=now_ms, outcome=outcome)
    return [
        MemberResponse(member_id=leaver.member_id, group_instance_id=leaver.group_instance_id, error_code=error)
        for leaver, error in zip(leavers, errors, strict=True)
    ]


def _remove(group: ClassicGroup, leaver: MemberIdentity, outcome: Outcome) -> ErrorCode:
    """Remove one; an administrator names a static member by its instance id alone.

    An id that nobody joined with yet is only forgotten: that is no reason to rebalance.
    """
    if group.pending_joins.pop(leaver.member_id, None) is not None:
        return ErrorCode.NONE
    member_id = leaver.member_id
    if member_id == NO_MEMBER_ID and leaver.group_instance_id is not None:
        member_id = group.static_members.get(leaver.group_instance_id, NO_MEMBER_ID)
    error = group.check_member(member_id, leaver.group_instance_id)
    if not error:
        group.remove(group.members[member_id], outcome)
    return error
