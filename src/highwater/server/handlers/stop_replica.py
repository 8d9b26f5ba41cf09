"""StopReplica (key 5), versions 3-4, between brokers: the controller takes replicas away from this broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.server.between_brokers import roles_of

if TYPE_CHECKING:
    from highwater.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
    from highwater.server.request_context import RequestContext


async def handle(context: RequestContext, request: StopReplicaRequest) -> StopReplicaResponse:
    """Stop the replicas, and delete those that should go."""
    return await roles_of(context).stop(request)
