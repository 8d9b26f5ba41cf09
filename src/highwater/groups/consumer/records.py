"""A consumer group's records, made from what was decided and read back into it."""

from highwater.groups.classic.member import MemberProtocol
from highwater.groups.consumer.assignment import Assignment, from_messages, to_messages
from highwater.groups.consumer.member import ClassicPart, Subscription
from highwater.groups.consumer.reconciliation import Position
from highwater.groups.consumer.states import member_state
from highwater.groups.records import GroupRecord
from highwater.protocol.messages.consumer_group_records import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    TopicPartitions,
)


def group_epoch(group_id: str, epoch: int, metadata_hash: int) -> GroupRecord:
    """Return the record of a group's epoch, and of the topics that it was raised over."""
    return GroupRecord(
        ConsumerGroupMetadataKey(group_id=group_id),
        ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash),
    )


def subscribed(group_id: str, member_id: str, subscription: Subscription) -> GroupRecord:
    """Return the record of who a member is and what it reads."""
    classic = subscription.classic
    return GroupRecord(
        ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id),
        ConsumerGroupMemberMetadataValue(
            instance_id=subscription.instance_id,
            rack_id=subscription.rack_id,
            client_id=subscription.client_id,
            client_host=subscription.client_host,
            subscribed_topic_names=sorted(subscription.topic_names),
            subscribed_topic_regex=subscription.topic_regex or None,
            rebalance_timeout_ms=subscription.rebalance_timeout_ms,
            server_assignor=subscription.assignor,
            classic_member_metadata=None
            if classic is None
            else ClassicMemberMetadata(
                session_timeout_ms=classic.session_timeout_ms,
                supported_protocols=[
                    ClassicProtocol(name=offer.name, metadata=offer.metadata) for offer in classic.protocols
                ],
            ),
        ),
    )


def read_subscription(value: ConsumerGroupMemberMetadataValue) -> Subscription:
    """Return what a member's record says."""
    classic = value.classic_member_metadata
    return Subscription(
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topic_names=frozenset(value.subscribed_topic_names),
        topic_regex=value.subscribed_topic_regex or "",
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicPart(
            classic.session_timeout_ms,
            tuple(MemberProtocol(offer.name, offer.metadata) for offer in classic.supported_protocols),
        ),
    )


def target(group_id: str, member_id: str, assignment: Assignment) -> GroupRecord:
    """Return the record of what a member should have."""
    return GroupRecord(
        ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id),
        ConsumerGroupTargetAssignmentMemberValue(topic_partitions=to_messages(assignment, TopicPartitions)),
    )


def target_epoch(group_id: str, epoch: int) -> GroupRecord:
    """Return the record of the epoch that the targets are for; it comes after them."""
    return GroupRecord(
        ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id),
        ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=epoch),
    )


def current(group_id: str, member_id: str, position: Position, *, previous_epoch: int) -> GroupRecord:
    """Return the record of what a member has and must give up."""
    return GroupRecord(
        ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id),
        ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=position.epoch,
            previous_member_epoch=previous_epoch,
            state=position.state,
            assigned_partitions=to_messages(position.assigned, TopicPartitions),
            partitions_pending_revocation=to_messages(position.revoking, TopicPartitions),
        ),
    )


def read_position(value: ConsumerGroupCurrentMemberAssignmentValue) -> Position:
    """Return what a member's record says."""
    return Position(
        value.member_epoch,
        member_state(value.state),
        from_messages(value.assigned_partitions),
        from_messages(value.partitions_pending_revocation),
    )


def resolved_regex(group_id: str, regex: str, topics: frozenset[str], *, version: int, wall_ms: int) -> GroupRecord:
    """Return the record of which topics a pattern stands for."""
    return GroupRecord(
        ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex),
        ConsumerGroupRegularExpressionValue(topics=sorted(topics), version=version, timestamp=wall_ms),
    )


def regex_forgotten(group_id: str, regex: str) -> GroupRecord:
    """Return the tombstone of a pattern that nobody uses any more."""
    return GroupRecord(ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=regex), None)


def member_removed(group_id: str, member_id: str) -> tuple[GroupRecord, ...]:
    """Return the tombstones of a member, in the order in which its parts may be missed."""
    return (
        GroupRecord(ConsumerGroupCurrentMemberAssignmentKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(ConsumerGroupTargetAssignmentMemberKey(group_id=group_id, member_id=member_id), None),
        GroupRecord(ConsumerGroupMemberMetadataKey(group_id=group_id, member_id=member_id), None),
    )


def group_removed(group_id: str) -> tuple[GroupRecord, ...]:
    """Return the tombstones of a group without members."""
    return (
        GroupRecord(ConsumerGroupTargetAssignmentMetadataKey(group_id=group_id), None),
        GroupRecord(ConsumerGroupMetadataKey(group_id=group_id), None),
    )
