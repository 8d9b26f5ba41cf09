"""DescribeGroups (key 15), versions 0-6: classic groups and their members; consumer groups are not found here.

v3  which operations the caller may do
v4  static members' instance ids
v6  a group that is not there is GROUP_ID_NOT_FOUND (KIP-1043); before that it is in the state Dead
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.groups.admin import describe_classic
from highwater.groups.classic.group import ClassicGroup
from highwater.groups.classic.states import GroupState
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext

NOT_FOUND_FROM: Final = 6


def handle(context: RequestContext, request: DescribeGroupsRequest) -> DescribeGroupsResponse:
    """Describe each group by itself."""
    groups = [_describe(context, group_id) for group_id in request.groups]
    if request.include_authorized_operations:
        for group in groups:
            if not group.error_code:
                group.authorized_operations = context.allowed_operations(ResourceType.GROUP, group.group_id)
    return DescribeGroupsResponse(groups=groups)


def _describe(context: RequestContext, group_id: str) -> DescribedGroup:
    try:
        context.require(Operation.DESCRIBE, ResourceType.GROUP, group_id)
        shard = context.broker.groups.shard_of(group_id)
    except KafkaError as error:
        return DescribedGroup(group_id=group_id, error_code=error.code)
    group = shard.core.groups.get(group_id)
    if isinstance(group, ClassicGroup):
        return describe_classic(group)
    missing = DescribedGroup(group_id=group_id, group_state=GroupState.DEAD)
    if context.version >= NOT_FOUND_FROM:
        missing.error_code = ErrorCode.GROUP_ID_NOT_FOUND
        missing.error_message = f"there is no classic group {group_id}"
    return missing
