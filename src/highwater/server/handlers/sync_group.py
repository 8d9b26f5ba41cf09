"""SyncGroup (key 14), versions 0-5: hand in the group's assignment, or wait for one's own.

v3  static members (KIP-345)
v5  the member says which protocol it thinks was agreed on, and is refused if it was another (KIP-559)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.broker.pending_answer import PendingAnswer
    from highwater.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
    from highwater.server.request_context import RequestContext


def handle(context: RequestContext, request: SyncGroupRequest) -> PendingAnswer[SyncGroupResponse]:
    """Take the request to its group."""
    context.require(Operation.READ, ResourceType.GROUP, request.group_id)
    return context.broker.groups.shard_of(request.group_id).sync(request, version=context.version)
