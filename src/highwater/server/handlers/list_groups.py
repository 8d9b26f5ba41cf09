"""ListGroups (key 16), versions 0-5: the groups that this broker coordinates.

v4  by state (KIP-518)
v5  by type, classic or consumer (KIP-848)
While some groups load, the answer has those that are there and COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.groups.admin import listed
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext


def handle(context: RequestContext, request: ListGroupsRequest) -> ListGroupsResponse:
    """List the groups that the caller may know of and that the filters let through."""
    states = {state.casefold() for state in request.states_filter}
    types = {kind.casefold() for kind in request.types_filter}
    sees_all = context.authorize(Operation.DESCRIBE, ResourceType.CLUSTER)
    coordinator = context.broker.groups

    def is_wanted(group: ListedGroup) -> bool:
        return (
            (not states or group.group_state.casefold() in states)
            and (not types or group.group_type.casefold() in types)
            and (sees_all or context.authorize(Operation.DESCRIBE, ResourceType.GROUP, group.group_id))
        )

    everything = (listed(group) for shard in coordinator.shards() for group in shard.core.groups.values())
    return ListGroupsResponse(
        error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if coordinator.is_loading else ErrorCode.NONE,
        groups=[group for group in everything if is_wanted(group)],
    )
