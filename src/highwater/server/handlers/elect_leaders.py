"""ElectLeaders (key 43), versions 0-2: give partitions back to their preferred leader, or to any replica that is left.

v1  which kind: 0 the preferred leader, 1 any live replica, in sync or not (unclean)
Null asks for every partition; those that need no election are then left out of the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.controller.events import ElectionKind
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import TopicPartition
from highwater.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext


async def handle(context: RequestContext, request: ElectLeadersRequest) -> ElectLeadersResponse:
    """Elect, and answer for each partition by itself."""
    context.require(Operation.ALTER, ResourceType.CLUSTER)
    try:
        kind = ElectionKind(request.election_type)
    except ValueError as error:
        raise KafkaError(
            f"there is no election of type {request.election_type}", code=ErrorCode.INVALID_REQUEST
        ) from error
    asked = None
    if request.topic_partitions is not None:
        asked = [TopicPartition(topic.topic, index) for topic in request.topic_partitions for index in topic.partitions]
    outcomes = await context.broker.partition_admin.elect(kind, asked, timeout_ms=request.timeout_ms)
    by_topic: dict[str, ReplicaElectionResult] = {}
    for name, refusal in outcomes.items():
        result = by_topic.setdefault(name.topic, ReplicaElectionResult(topic=name.topic))
        result.partition_result.append(
            PartitionResult(
                partition_id=name.partition,
                error_code=ErrorCode.NONE if refusal is None else refusal.code,
                error_message=None if refusal is None else refusal.message,
            )
        )
    return ElectLeadersResponse(replica_election_results=list(by_topic.values()))
