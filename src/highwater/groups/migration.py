"""A group with members changes its protocol, and nobody stops reading meanwhile.

Upgrade: the first member of the newer protocol joins a classic group. What its members have stays theirs, and they go
on with the classic protocol as members of the consumer group. Downgrade: the last member of the newer protocol goes,
and those that are left are a classic group again.
"""

from typing import NamedTuple

from highwater.groups.causes import CauseKind, RebalanceCause
from highwater.groups.changes import Changes
from highwater.groups.classic.group import CONSUMER_PROTOCOL, ClassicGroup
from highwater.groups.classic.member import ClassicMember
from highwater.groups.classic.outcome import Outcome
from highwater.groups.classic.rebalance import begin
from highwater.groups.classic.states import GroupState
from highwater.groups.consumer import records
from highwater.groups.consumer.classic_members import by_id, named
from highwater.groups.consumer.group import ConsumerGroup
from highwater.groups.consumer.member import LEAVING_EPOCH, ClassicPart, ConsumerMember, Subscription
from highwater.groups.consumer.reconciliation import Position
from highwater.groups.consumer.states import MemberState
from highwater.groups.consumer.timeouts import take_over
from highwater.groups.consumer.topics import metadata_hash
from highwater.groups.records import group_deleted
from highwater.groups.removal import tombstones
from highwater.groups.shard import GroupShard
from highwater.groups.subscription import read_assignment, read_subscription, write_assignment
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription

# Up -----------------------------------------------------------------------------------------------------------------


class _Understood(NamedTuple):
    """A member of a classic group, as far as the coordinator can read what its clients tell each other."""

    member: ClassicMember
    subscription: ConsumerProtocolSubscription
    assignment: ConsumerProtocolAssignment


def _understand(group: ClassicGroup) -> list[_Understood] | None:
    """Return all members, or None if one of them cannot be understood."""
    understood = []
    for member in group.members.values():
        protocol = group.protocol or member.protocols[0].name
        subscription = read_subscription(member.metadata_for(protocol))
        assignment = read_assignment(member.assignment)
        if subscription is None or assignment is None:
            return None
        understood.append(_Understood(member, subscription, assignment))
    return understood


def can_upgrade(shard: GroupShard, group: ClassicGroup) -> bool:
    """Whether a classic group may become a consumer group."""
    return (
        shard.settings.migration_policy.allows_upgrade
        and group.protocol_type == CONSUMER_PROTOCOL
        and len(group.members) < shard.settings.consumer_max_size
        and _understand(group) is not None
    )


def upgrade(shard: GroupShard, group: ClassicGroup, changes: Changes, outcome: Outcome) -> ConsumerGroup:
    """Make a consumer group of a classic one; whoever waits for the others is asked to join again."""
    members = _understand(group)
    assert members is not None, "`can_upgrade` was asked"
    for member in group.members.values():
        group.refuse_waiting(member, ErrorCode.REBALANCE_IN_PROGRESS, outcome)
    group_id, generation = group.group_id, group.generation
    changes.add(group_deleted(group_id))
    for understood in members:
        _upgrade_member(shard, group_id, generation, understood, changes)
    upgraded = shard.consumer_group(group_id)
    topics_hash = metadata_hash(upgraded.subscribed_topics(), shard.topics)
    changes.add(records.group_epoch(group_id, generation, topics_hash), records.target_epoch(group_id, generation))
    take_over(upgraded, session_timeout_ms=shard.timing_of(group_id).session_timeout_ms, now_ms=changes.now_ms)
    changes.causes.append(RebalanceCause(CauseKind.PROTOCOL_MIGRATED, detail="classic to consumer"))
    return upgraded


def _upgrade_member(
    shard: GroupShard, group_id: str, generation: int, understood: _Understood, changes: Changes
) -> None:
    member, said, given = understood
    subscription = Subscription(
        instance_id=member.instance_id,
        rack_id=said.rack_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=frozenset(said.topics),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicPart(member.session_timeout_ms, member.protocols),
    )
    assigned = by_id(given.assigned_partitions, shard.topics)
    position = Position(generation, MemberState.STABLE, assigned, {})
    changes.add(
        records.subscribed(group_id, member.member_id, subscription),
        records.target(group_id, member.member_id, assigned),
        records.current(group_id, member.member_id, position, previous_epoch=LEAVING_EPOCH),
    )


# Down ---------------------------------------------------------------------------------------------------------------


def must_downgrade(shard: GroupShard, group: ConsumerGroup) -> bool:
    """Whether all who are left speak the classic protocol, and may go back to it."""
    return (
        shard.settings.migration_policy.allows_downgrade
        and bool(group.members)
        and len(group.members) <= shard.settings.max_group_size
        and all(member.subscription.classic is not None for member in group.members.values())
    )


def downgrade(shard: GroupShard, group: ConsumerGroup, changes: Changes, outcome: Outcome) -> ClassicGroup:
    """Make a classic group of what is left of a consumer group; it rebalances at once, to agree on a leader."""
    members = list(group.members.values())
    epoch = group.epoch
    for member in members:
        changes.add(*records.member_removed(group.group_id, member.member_id))
    changes.add(*tombstones(group))
    downgraded = shard.classic_group(group.group_id)
    downgraded.generation = epoch
    for member in members:
        downgraded.add(_downgrade_member(shard, member), CONSUMER_PROTOCOL)
    downgraded.protocol = downgraded.select_protocol()
    downgraded.state = GroupState.STABLE
    downgraded.refresh_subscribed_topics()
    for classic in downgraded.members.values():
        downgraded.renew_session(classic, changes.now_ms)
    outcome.must_store = True
    cause = RebalanceCause(CauseKind.PROTOCOL_MIGRATED, detail="consumer to classic")
    begin(downgraded, cause, settings=shard.settings, now_ms=changes.now_ms, outcome=outcome)
    return downgraded


def _downgrade_member(shard: GroupShard, member: ConsumerMember) -> ClassicMember:
    subscription = member.subscription
    classic = subscription.classic
    assert classic is not None, "`must_downgrade` was asked"
    return ClassicMember(
        member_id=member.member_id,
        instance_id=subscription.instance_id,
        client_id=subscription.client_id,
        client_host=subscription.client_host,
        session_timeout_ms=classic.session_timeout_ms,
        rebalance_timeout_ms=subscription.rebalance_timeout_ms,
        protocols=classic.protocols,
        assignment=write_assignment(named(member.assigned, shard.topics), like=classic.protocols[0].metadata),
    )
