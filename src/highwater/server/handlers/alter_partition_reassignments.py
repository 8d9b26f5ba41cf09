"""AlterPartitionReassignments (key 45), versions 0-1: move partitions to other brokers, or call moves off.

v1  the caller may forbid that the number of replicas changes
Answered once the move is written down; it is over when ListPartitionReassignments no longer shows it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.model.errors import ErrorCode
from highwater.model.ids import TopicPartition
from highwater.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.model.errors import KafkaError
    from highwater.server.request_context import RequestContext


async def handle(
    context: RequestContext, request: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    """Begin the moves, and answer for each partition by itself."""
    context.require(Operation.ALTER, ResourceType.CLUSTER)
    targets = {
        TopicPartition(topic.name, partition.partition_index): partition.replicas
        for topic in request.topics
        for partition in topic.partitions
    }
    outcomes = await context.broker.partition_admin.move(
        targets, may_change_factor=request.allow_replication_factor_change
    )
    return AlterPartitionReassignmentsResponse(
        allow_replication_factor_change=request.allow_replication_factor_change,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[
                    _answer(partition.partition_index, outcomes[TopicPartition(topic.name, partition.partition_index)])
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


def _answer(index: int, refusal: KafkaError | None) -> ReassignablePartitionResponse:
    if refusal is None:
        return ReassignablePartitionResponse(partition_index=index)
    return ReassignablePartitionResponse(
        partition_index=index, error_code=ErrorCode(refusal.code), error_message=refusal.message
    )
