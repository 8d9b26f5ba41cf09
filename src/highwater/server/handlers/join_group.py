"""JoinGroup (key 11), versions 0-9: become a member of a classic group, and wait for the others.

v1  a rebalance timeout of its own; before that the session timeout counts for both
v4  a member without an id is given one and asked to join with it (KIP-394)
v5  static members (KIP-345)
v7  the answer names the protocol type (KIP-559)
v8  the member's reason (KIP-800), which the log shows as the cause of the rebalance
v9  a static leader that returns is told not to assign anew
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.broker.pending_answer import PendingAnswer
    from highwater.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
    from highwater.server.request_context import RequestContext


def handle(context: RequestContext, request: JoinGroupRequest) -> PendingAnswer[JoinGroupResponse]:
    """Take the request to its group."""
    context.require(Operation.READ, ResourceType.GROUP, request.group_id)
    shard = context.broker.groups.shard_of(request.group_id)
    return shard.join(request, version=context.version, client_id=context.client_id, client_host=context.client_address)
