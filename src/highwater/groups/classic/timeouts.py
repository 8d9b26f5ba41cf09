"""What time does to a classic group."""

from highwater.groups.causes import CauseKind, RebalanceCause
from highwater.groups.classic.group import NEVER_MS, ClassicGroup
from highwater.groups.classic.outcome import Outcome
from highwater.groups.classic.rebalance import (
    begin,
    begin_or_complete,
    complete_if_all_joined,
    complete_join,
    extend_initial_delay,
)
from highwater.groups.settings import GroupSettings


def tick(group: ClassicGroup, *, settings: GroupSettings, now_ms: int, outcome: Outcome) -> None:
    """Do what is due, and set `wake_at_ms` to when something is due next."""
    _expire_sessions(group, settings=settings, now_ms=now_ms, outcome=outcome)
    _expire_ids(group, now_ms=now_ms, outcome=outcome)
    if now_ms >= group.sync_deadline_ms:
        _expire_syncs(group, settings=settings, now_ms=now_ms, outcome=outcome)
    if now_ms >= group.join_deadline_ms and not extend_initial_delay(group, settings, now_ms):
        complete_join(group, now_ms=now_ms, outcome=outcome)
    group.wake_at_ms = group.earliest_deadline_ms()


def _expire_sessions(group: ClassicGroup, *, settings: GroupSettings, now_ms: int, outcome: Outcome) -> None:
    """Remove the members that were not heard from in time, all in one rebalance."""
    silent = [member for member in group.members.values() if member.has_expired(now_ms)]
    for member in silent:
        group.remove(member, outcome)
    if silent:
        cause = RebalanceCause(CauseKind.SESSION_EXPIRED, tuple(member.member_id for member in silent))
        begin_or_complete(group, cause, settings=settings, now_ms=now_ms, outcome=outcome)


def _expire_ids(group: ClassicGroup, *, now_ms: int, outcome: Outcome) -> None:
    """Forget the ids that nobody joined with; the others need not wait for them."""
    overdue = [member_id for member_id, expires_at_ms in group.pending_joins.items() if now_ms >= expires_at_ms]
    for member_id in overdue:
        del group.pending_joins[member_id]
    if overdue:
        complete_if_all_joined(group, now_ms=now_ms, outcome=outcome)


def _expire_syncs(group: ClassicGroup, *, settings: GroupSettings, now_ms: int, outcome: Outcome) -> None:
    """Remove the members that joined this generation and then never asked for their assignment."""
    group.sync_deadline_ms = NEVER_MS
    missing = tuple(member_id for member_id in group.members if member_id in group.pending_syncs)
    for member_id in missing:
        group.remove(group.members[member_id], outcome)
    if missing:
        cause = RebalanceCause(CauseKind.SYNC_TIMED_OUT, missing)
        begin(group, cause, settings=settings, now_ms=now_ms, outcome=outcome)
