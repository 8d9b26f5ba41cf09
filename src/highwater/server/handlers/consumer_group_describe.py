"""ConsumerGroupDescribe (key 69), versions 0-1: consumer groups, their members and what these have (KIP-848).

v1  whether a member speaks the classic protocol (KIP-1099)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.groups.admin import describe_consumer
from highwater.groups.consumer.group import ConsumerGroup
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext


def handle(context: RequestContext, request: ConsumerGroupDescribeRequest) -> ConsumerGroupDescribeResponse:
    """Describe each group by itself."""
    groups = [_describe(context, group_id) for group_id in request.group_ids]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = context.allowed_operations(ResourceType.GROUP, group.group_id)
    return ConsumerGroupDescribeResponse(groups=groups)


def _describe(context: RequestContext, group_id: str) -> DescribedGroup:
    try:
        context.require(Operation.DESCRIBE, ResourceType.GROUP, group_id)
        core = context.broker.groups.shard_of(group_id).core
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code, error_message=error.message)
    group = core.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        return DescribedGroup(
            group_id=group_id,
            error_code=ErrorCode.GROUP_ID_NOT_FOUND,
            error_message=f"there is no consumer group {group_id}",
        )
    return describe_consumer(group, core.topics, assignors=core.settings.consumer_assignors)
