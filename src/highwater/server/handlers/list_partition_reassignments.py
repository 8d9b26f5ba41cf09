"""ListPartitionReassignments (key 46), version 0: which partitions are being moved?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.model.ids import TopicPartition
from highwater.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext


def handle(context: RequestContext, request: ListPartitionReassignmentsRequest) -> ListPartitionReassignmentsResponse:
    """List them, of the partitions asked for or of all."""
    context.require(Operation.DESCRIBE, ResourceType.CLUSTER)
    asked = None
    if request.topics is not None:
        asked = [TopicPartition(topic.name, index) for topic in request.topics for index in topic.partition_indexes]
    by_topic: dict[str, OngoingTopicReassignment] = {}
    for name, assignment in context.broker.partition_admin.moving(asked):
        topic = by_topic.setdefault(name.topic, OngoingTopicReassignment(name=name.topic))
        topic.partitions.append(
            OngoingPartitionReassignment(
                partition_index=name.partition,
                replicas=list(assignment.replicas),
                adding_replicas=list(assignment.adding),
                removing_replicas=list(assignment.removing),
            )
        )
    return ListPartitionReassignmentsResponse(topics=list(by_topic.values()))
