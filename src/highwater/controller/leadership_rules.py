"""Who should lead a partition: pure rules, each from what is true now to what should be.

The controller does not remember what it was doing. After every change it asks `wanted` what each partition should be,
so that a new controller continues where the last one stopped by asking the same question.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from highwater.model.ids import NO_BROKER, BrokerId

if TYPE_CHECKING:
    from highwater.controller.partition import ControlledPartition, Leadership


def wanted(
    partition: ControlledPartition,
    *,
    live: Collection[BrokerId],
    leaving: Collection[BrokerId],
    allows_unclean: bool,
) -> Leadership | None:
    """Return the leadership that the partition should have, or None if it is as it should be.

    `leaving` brokers are alive, but asked to be relieved: they lead only what nobody else in sync can lead.

    A leader is always taken from those in sync, the first in the order of replicas; so nothing committed is lost. With
    none of them alive there is no leader and the in-sync set stays as it was, for its members are the ones to wait for
    (unless the topic prefers being available to being right).

    Brokers that have `bounced` may have lost the end of their log with their machine's power (KIP-903): they count as
    in sync only if nobody else is. Whatever becomes of the partition, it gets a new epoch, so that nobody leads on, or
    is called in sync by its leader, because of what was there before.
    """
    now, order = partition.leadership, partition.holders
    able = [broker for broker in order if broker in live and broker not in partition.broken]
    staying = [broker for broker in able if broker not in leaving]
    in_sync = trusted(partition, able)
    in_sync_staying = tuple(broker for broker in in_sync if broker in staying)
    if now.leader in in_sync_staying:
        target = _moved_to_target(partition, now.leader, in_sync_staying)
        return now.moved(now.leader, in_sync_staying) if target is None and partition.bounced else target
    if in_sync_staying:
        leader = next(broker for broker in order if broker in in_sync_staying)
        return now.moved(leader, in_sync_staying)
    if now.leader in able and now.leader in in_sync:
        return None  # it leaves, and nobody can follow it
    in_sync_able = tuple(broker for broker in in_sync if broker in able)
    if in_sync_able:
        return now.moved(next(broker for broker in order if broker in in_sync_able), in_sync_able)
    if allows_unclean and able:
        leader = (staying or able)[0]
        return now.moved(leader, (leader,))
    return None if now.leader == NO_BROKER else now.moved(NO_BROKER, now.isr)


def trusted(partition: ControlledPartition, able: Collection[BrokerId]) -> tuple[BrokerId, ...]:
    """Return the in-sync replicas that have what they had when they were called so; all, if none of those is able."""
    isr, bounced = partition.leadership.isr, partition.bounced
    sure = tuple(broker for broker in isr if broker not in bounced)
    return sure if any(broker in able for broker in sure) else isr


def _moved_to_target(
    partition: ControlledPartition, leader: BrokerId, in_sync: tuple[BrokerId, ...]
) -> Leadership | None:
    """Keep the leader, without those that are gone; once all new replicas are in sync, without those that should go."""
    now, target = partition.leadership, partition.assignment.target
    if has_arrived(partition):
        left = tuple(broker for broker in in_sync if broker in target)
        if left:  # or else the replicas that should go are the only ones there are
            in_sync = left
            leader = leader if leader in left else next(broker for broker in target if broker in left)
    return None if (leader, in_sync) == (now.leader, now.isr) else now.moved(leader, in_sync)


def has_arrived(partition: ControlledPartition) -> bool:
    """Return whether a moving partition is in sync everywhere that it should be in the end."""
    assignment = partition.assignment
    return assignment.is_moving and set(assignment.target) <= set(partition.leadership.isr)


def needs_no_other(partition: ControlledPartition) -> bool:
    """Return whether a moving partition is led, and in sync, where it should be in the end, and nowhere else."""
    now, target = partition.leadership, partition.assignment.target
    return has_arrived(partition) and now.leader in target and set(now.isr) == set(target)


def preferred(partition: ControlledPartition, live: Collection[BrokerId]) -> Leadership | None:
    """Return the leadership of the preferred replica, or None if it leads already or cannot."""
    first, now = partition.holders[0], partition.leadership
    if now.leader == first or first not in live or first not in now.isr or first in partition.broken:
        return None
    return now.moved(first, now.isr)


def unclean(partition: ControlledPartition, live: Collection[BrokerId]) -> Leadership | None:
    """Return a leadership for a partition without a leader, of any live replica, in sync or not."""
    now = partition.leadership
    if now.leader in live:
        return None
    able = [broker for broker in partition.holders if broker in live and broker not in partition.broken]
    in_sync = tuple(broker for broker in now.isr if broker in able)
    if in_sync:
        return now.moved(next(broker for broker in able if broker in in_sync), in_sync)
    return now.moved(able[0], (able[0],)) if able else None
