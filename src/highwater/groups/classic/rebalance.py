"""How a classic group goes from one generation to the next."""

from highwater.groups.causes import RebalanceCause
from highwater.groups.classic.group import NEVER_MS, ClassicGroup
from highwater.groups.classic.outcome import Outcome
from highwater.groups.classic.states import GroupState
from highwater.groups.settings import GroupSettings
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.sync_group import SyncGroupResponse


def begin_or_complete(
    group: ClassicGroup, cause: RebalanceCause, *, settings: GroupSettings, now_ms: int, outcome: Outcome
) -> None:
    """Start a rebalance, or see whether the one under way has everybody now."""
    if group.can_rebalance:
        begin(group, cause, settings=settings, now_ms=now_ms, outcome=outcome)
    else:
        complete_if_all_joined(group, now_ms=now_ms, outcome=outcome)


def begin(
    group: ClassicGroup, cause: RebalanceCause, *, settings: GroupSettings, now_ms: int, outcome: Outcome
) -> None:
    """Ask every member to join again; whoever waits for an assignment of this generation is told so."""
    if group.state is GroupState.COMPLETING_REBALANCE:
        refuse_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS, now_ms=now_ms, outcome=outcome)
    group.sync_deadline_ms = NEVER_MS
    outcome.causes.append(cause)
    is_first = group.state is GroupState.EMPTY
    group.move_to(GroupState.PREPARING_REBALANCE)
    if is_first:
        _give_first_members_time(group, settings, now_ms)
    elif group.all_have_joined:
        complete_join(group, now_ms=now_ms, outcome=outcome)
    else:
        group.set_join_deadline(now_ms + group.rebalance_timeout_ms)


def _give_first_members_time(group: ClassicGroup, settings: GroupSettings, now_ms: int) -> None:
    """Delay a new group's first generation: members tend to start together (KIP-134)."""
    group.member_joined_in_delay = False
    group.initial_delay_left_ms = max(group.rebalance_timeout_ms - settings.initial_rebalance_delay_ms, 0)
    group.set_join_deadline(now_ms + settings.initial_rebalance_delay_ms)


def extend_initial_delay(group: ClassicGroup, settings: GroupSettings, now_ms: int) -> bool:
    """Wait once more if somebody joined during the delay and time is left; return whether we do."""
    if not group.waits_for_first_members or not group.member_joined_in_delay or not group.initial_delay_left_ms:
        return False
    group.member_joined_in_delay = False
    delay_ms = min(settings.initial_rebalance_delay_ms, group.initial_delay_left_ms)
    group.initial_delay_left_ms -= delay_ms
    group.set_join_deadline(now_ms + delay_ms)
    return True


def complete_if_all_joined(group: ClassicGroup, *, now_ms: int, outcome: Outcome) -> None:
    """End the join phase early when nobody is missing. A new group's delay is not cut short."""
    if group.state is GroupState.PREPARING_REBALANCE and not group.waits_for_first_members and group.all_have_joined:
        complete_join(group, now_ms=now_ms, outcome=outcome)


def complete_join(group: ClassicGroup, *, now_ms: int, outcome: Outcome) -> None:
    """End the join phase: who is here forms the next generation, and gets to know it."""
    group.join_deadline_ms = NEVER_MS
    _drop_members_that_did_not_rejoin(group, outcome)
    if group.members and not group.elect_joined_leader():
        # Only static members are left, and none of them has rejoined: wait for them, or for their sessions to end.
        group.set_join_deadline(now_ms + group.rebalance_timeout_ms)
        return
    group.next_generation()
    if not group.members:
        outcome.must_store = True
        return
    group.sync_deadline_ms = now_ms + group.rebalance_timeout_ms
    group.wake_by(group.sync_deadline_ms)
    for member in group.members.values():
        if member.join_ticket is None:
            # A static member that is away. Its session decides how long its place is kept (KIP-345); Kafka also
            # expects a SyncGroup of it, and would drop it for that.
            continue
        group.answer_join(member, group.joined(member, with_members=member.member_id == group.leader), outcome)
        member.is_new = False
        group.renew_session(member, now_ms)
        group.pending_syncs.add(member.member_id)


def _drop_members_that_did_not_rejoin(group: ClassicGroup, outcome: Outcome) -> None:
    missing = [member for member in group.members.values() if member.join_ticket is None and member.instance_id is None]
    for member in missing:
        group.remove(member, outcome)
        outcome.dropped.append(member.member_id)


def refuse_syncs(group: ClassicGroup, error: ErrorCode, *, now_ms: int, outcome: Outcome) -> None:
    """Forget the assignments of this generation, and tell whoever waits for one."""
    for member in group.members.values():
        member.assignment = b""
        if member.sync_ticket is not None:
            group.answer_sync(member, SyncGroupResponse(error_code=error), outcome)
            group.renew_session(member, now_ms)
