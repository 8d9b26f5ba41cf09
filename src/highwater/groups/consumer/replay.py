"""What each kind of record does to a consumer group."""

from highwater.groups.consumer import records
from highwater.groups.consumer.assignment import from_messages
from highwater.groups.consumer.group import ConsumerGroup
from highwater.groups.records import GroupRecord
from highwater.protocol.messages.consumer_group_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
)


def apply(group: ConsumerGroup, record: GroupRecord) -> None:
    """Let one record about the group, its members or its targets count."""
    key, value = record
    match value:
        case None:
            _remove(group, record)
        case ConsumerGroupMetadataValue():
            group.epoch = value.epoch
            group.metadata_hash = value.metadata_hash
        case ConsumerGroupTargetAssignmentMetadataValue():
            group.target_epoch = value.assignment_epoch
        case ConsumerGroupMemberMetadataValue():
            assert isinstance(key, ConsumerGroupMemberMetadataKey)
            group.set_subscription(key.member_id, records.read_subscription(value))
        case ConsumerGroupTargetAssignmentMemberValue():
            assert isinstance(key, ConsumerGroupTargetAssignmentMemberKey)
            group.targets[key.member_id] = from_messages(value.topic_partitions)
        case ConsumerGroupCurrentMemberAssignmentValue():
            assert isinstance(key, ConsumerGroupCurrentMemberAssignmentKey)
            position = records.read_position(value)
            group.set_position(key.member_id, position, previous_epoch=value.previous_member_epoch)
        case ConsumerGroupRegularExpressionValue():
            assert isinstance(key, ConsumerGroupRegularExpressionKey)
            group.regexes[key.regular_expression] = frozenset(value.topics)


def _remove(group: ConsumerGroup, record: GroupRecord) -> None:
    match record.key:
        case ConsumerGroupMemberMetadataKey(member_id=member_id):
            group.remove_member(member_id)
        case ConsumerGroupTargetAssignmentMemberKey(member_id=member_id):
            group.targets.pop(member_id, None)
        case ConsumerGroupCurrentMemberAssignmentKey(member_id=member_id):
            group.clear_position(member_id)
        case ConsumerGroupRegularExpressionKey(regular_expression=regex):
            group.regexes.pop(regex, None)
