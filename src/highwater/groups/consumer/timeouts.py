"""What time does to a consumer group."""

from highwater.groups.causes import CauseKind, RebalanceCause
from highwater.groups.changes import Changes
from highwater.groups.consumer.group import ConsumerGroup
from highwater.groups.consumer.rebalance import remove
from highwater.groups.consumer.topics import TopicsView


def tick(group: ConsumerGroup, topics: TopicsView, changes: Changes) -> None:
    """Remove members that were silent for a session, or that kept partitions for longer than they said they need."""
    now_ms = changes.now_ms
    silent = [member for member in group.members.values() if now_ms >= member.expires_at_ms]
    if silent:
        names = tuple(member.member_id for member in silent)
        remove(group, silent, RebalanceCause(CauseKind.SESSION_EXPIRED, names), topics, changes)
    slow = [member for member in group.members.values() if now_ms >= member.act_by_ms]
    if slow:
        names = tuple(member.member_id for member in slow)
        are_classic = all(member.subscription.classic is not None for member in slow)
        kind = CauseKind.SYNC_TIMED_OUT if are_classic else CauseKind.REVOCATION_TIMED_OUT
        remove(group, slow, RebalanceCause(kind, names), topics, changes)
    group.wake_at_ms = group.earliest_deadline_ms()


def take_over(group: ConsumerGroup, *, session_timeout_ms: int, now_ms: int) -> None:
    """Give every member of a group that was just loaded a whole session to be heard from, and to do what it must."""
    for member in group.members.values():
        member.expires_at_ms = now_ms + member.session_timeout_ms(session_timeout_ms)
        if member.revoking:
            member.act_by_ms = now_ms + member.subscription.rebalance_timeout_ms
    group.wake_at_ms = group.earliest_deadline_ms()
