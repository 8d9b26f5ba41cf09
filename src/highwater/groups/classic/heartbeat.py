"""Heartbeat: a member is alive, and asks whether it must rejoin."""

from highwater.groups.classic.group import ClassicGroup
from highwater.groups.classic.states import GroupState
from highwater.model.errors import ErrorCode


def heartbeat(
    group: ClassicGroup, *, member_id: str, instance_id: str | None, generation: int, now_ms: int
) -> ErrorCode:
    """Renew the member's session; REBALANCE_IN_PROGRESS asks it to join again."""
    error = group.check_member(member_id, instance_id)
    if error:
        return error
    if generation != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    group.renew_session(group.members[member_id], now_ms)
    rejoins = group.state is GroupState.PREPARING_REBALANCE
    return ErrorCode.REBALANCE_IN_PROGRESS if rejoins else ErrorCode.NONE
