"""How a member comes from what it has to what it should have: first gives up, then gets.

No partition ever has two owners, because one is only given to a member when no other has it, and a member only stops
having it when it has said so itself (or is gone). Nobody waits for anybody else meanwhile.
"""

from collections.abc import Callable
from typing import NamedTuple

from highwater.groups.consumer.assignment import NOTHING, Assignment, common, joined, pairs, without
from highwater.groups.consumer.member import ConsumerMember
from highwater.groups.consumer.states import MemberState
from highwater.model.ids import TopicId


class Position(NamedTuple):
    """Where a member is: its current assignment record."""

    epoch: int
    state: MemberState
    assigned: Assignment
    revoking: Assignment


def position_of(member: ConsumerMember) -> Position:
    """Return where a member is now."""
    return Position(member.epoch, member.state, member.assigned, member.revoking)


def next_position(
    member: ConsumerMember,
    *,
    target: Assignment,
    target_epoch: int,
    owned: Assignment | None,
    is_free: Callable[[TopicId, int], bool],
) -> Position:
    """Return where a member goes from here; `owned` is what it reported to have, if it did."""
    if member.has_reached(target_epoch):
        return position_of(member)
    epoch = member.epoch
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if owned is None or common(owned, member.revoking):
            return position_of(member)
        # What it gave up it no longer has at this epoch; a step of one keeps it behind the target until it is there.
        epoch += 1
    kept = common(member.assigned, target)
    to_give_up = without(member.assigned, kept)
    if to_give_up and (owned is None or common(owned, to_give_up)):
        return Position(epoch, MemberState.UNREVOKED_PARTITIONS, kept, to_give_up)
    missing = without(target, kept)
    available = _free_part(missing, is_free)
    waits = without(missing, available)
    state = MemberState.UNRELEASED_PARTITIONS if waits else MemberState.STABLE
    return Position(target_epoch, state, joined(kept, available), NOTHING)


def _free_part(wanted: Assignment, is_free: Callable[[TopicId, int], bool]) -> Assignment:
    free: dict[TopicId, set[int]] = {}
    for topic_id, partition in pairs(wanted):
        if is_free(topic_id, partition):
            free.setdefault(topic_id, set()).add(partition)
    return {topic_id: frozenset(partitions) for topic_id, partitions in free.items()}
