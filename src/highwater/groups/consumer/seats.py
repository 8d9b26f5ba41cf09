"""The seat of a static member, kept while it is away (KIP-345)."""

from highwater.groups.changes import Changes
from highwater.groups.consumer import records
from highwater.groups.consumer.group import ConsumerGroup
from highwater.groups.consumer.member import JOINING_EPOCH, LEAVING_EPOCH, ConsumerMember
from highwater.groups.consumer.reconciliation import position_of


def take_over_seat(group: ConsumerGroup, away: ConsumerMember, member_id: str, changes: Changes) -> ConsumerMember:
    """Give all that a static member had to the one that comes back under a new id; nobody else notices."""
    target = group.target_of(away.member_id)
    position = position_of(away)._replace(epoch=JOINING_EPOCH)
    subscription = away.subscription
    changes.add(*records.member_removed(group.group_id, away.member_id))
    changes.add(
        records.subscribed(group.group_id, member_id, subscription),
        records.target(group.group_id, member_id, target),
        records.current(group.group_id, member_id, position, previous_epoch=LEAVING_EPOCH),
    )
    return group.members[member_id]
