"""DescribeCluster (key 60), versions 0-2: which brokers are there, and which is the controller?

v1  the caller says whether it wants brokers or controllers; controllers have no listeners of their own here
v2  fenced brokers on request; a broker here is alive or not there, so that there are none
A broker that has only just started answers when it knows who is there, as it does for Metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from highwater.security.authorizer import ResourceType

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext

BROKERS: Final = 1
CONTROLLERS: Final = 2
NOT_ASKED: Final = -(2**31)
"""In place of the operations that the caller may do, when it did not ask."""


async def handle(context: RequestContext, request: DescribeClusterRequest) -> DescribeClusterResponse:
    """Describe the cluster as this broker knows it."""
    if request.endpoint_type != BROKERS:
        known = request.endpoint_type == CONTROLLERS
        return DescribeClusterResponse(
            error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE if known else ErrorCode.UNSUPPORTED_ENDPOINT_TYPE,
            error_message="this address is a broker's: ask for brokers (endpoint type 1)",
            endpoint_type=BROKERS,
        )
    cluster = context.broker.cluster
    await cluster.is_known.wait()
    return DescribeClusterResponse(
        cluster_id=cluster.id,
        controller_id=cluster.controller_id,
        brokers=[
            DescribeClusterBroker(broker_id=live.id, host=address.host, port=address.port, rack=live.rack)
            for live, address in cluster.reached_by(context.listener_name)
        ],
        cluster_authorized_operations=(
            context.allowed_operations(ResourceType.CLUSTER)
            if request.include_cluster_authorized_operations
            else NOT_ASKED
        ),
    )
