"""Heartbeat (key 12), versions 0-4: a member of a classic group is alive, and learns whether it must rejoin.

v3  static members (KIP-345)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext


def handle(context: RequestContext, request: HeartbeatRequest) -> HeartbeatResponse:
    """Answer at once."""
    context.require(Operation.READ, ResourceType.GROUP, request.group_id)
    return HeartbeatResponse(error_code=context.broker.groups.shard_of(request.group_id).heartbeat(request))
