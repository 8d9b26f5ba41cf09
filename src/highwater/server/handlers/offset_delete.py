"""OffsetDelete (key 47), version 0: forget how far a group has read some partitions (KIP-496).

Of a group with members only the offsets of topics that it no longer reads can go; others are GROUP_SUBSCRIBED_TO_TOPIC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.broker.pending_answer import PendingAnswer, when_committed
from highwater.groups.records import offset_deleted
from highwater.groups.removal import check_offset_deletion
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.groups.shard import GroupShard
    from highwater.server.request_context import RequestContext


def handle(
    context: RequestContext, request: OffsetDeleteRequest
) -> OffsetDeleteResponse | PendingAnswer[OffsetDeleteResponse]:
    """Write a tombstone for each offset that is there and may go."""
    group_id = request.group_id
    context.require(Operation.DELETE, ResourceType.GROUP, group_id)
    if not group_id:
        raise KafkaError("a group without a name", code=ErrorCode.INVALID_GROUP_ID)
    shard = context.broker.groups.shard_of(group_id)
    refusal = check_offset_deletion(shard.core, group_id)
    if refusal:
        return OffsetDeleteResponse(error_code=refusal)
    errors = {topic.name: _refusal(context, shard.core, group_id, topic) for topic in request.topics}
    offsets = shard.core.offsets_of(group_id)
    shard.write(
        offset_deleted(group_id, topic.name, asked.partition_index)
        for topic in request.topics
        if not errors[topic.name]
        for asked in topic.partitions
        if offsets.get(topic.name, asked.partition_index) is not None
    )
    response = OffsetDeleteResponse(topics=[_answer(topic, errors[topic.name]) for topic in request.topics])
    return when_committed([shard.journal], response, lambda code: OffsetDeleteResponse(error_code=code))


def _refusal(context: RequestContext, shard: GroupShard, group_id: str, topic: OffsetDeleteRequestTopic) -> ErrorCode:
    if not context.authorize(Operation.READ, ResourceType.TOPIC, topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if topic.name not in context.broker.topics:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if shard.groups[group_id].is_subscribed_to(topic.name):
        return ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    return ErrorCode.NONE


def _answer(topic: OffsetDeleteRequestTopic, error: ErrorCode) -> OffsetDeleteResponseTopic:
    return OffsetDeleteResponseTopic(
        name=topic.name,
        partitions=[
            OffsetDeleteResponsePartition(partition_index=asked.partition_index, error_code=error)
            for asked in topic.partitions
        ],
    )
