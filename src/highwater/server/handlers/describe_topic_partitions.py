"""DescribeTopicPartitions (key 75), version 0: topics and their partitions, page by page (KIP-966).

Topics come in the order of their names. A page holds as many partitions as the caller wants, at most
`max.request.partition.size.limit`; the cursor says where the next one starts.
Not served: eligible leader replicas; there are none outside the in-sync replicas.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.broker.topic_rules import check_name
from highwater.config.settings import node
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from highwater.security.authorizer import Operation, ResourceType
from highwater.server.partition_view import view_partition

if TYPE_CHECKING:
    from highwater.broker.topics import Topic
    from highwater.server.request_context import RequestContext


def handle(context: RequestContext, request: DescribeTopicPartitionsRequest) -> DescribeTopicPartitionsResponse:
    """Fill one page."""
    room = max(1, min(request.response_partition_limit, context.broker.config[node.MAX_REQUEST_PARTITION_SIZE_LIMIT]))
    response = DescribeTopicPartitionsResponse()
    for name in _names(context, request):
        try:
            topic = _found(context, name)
        except KafkaError as error:
            response.topics.append(DescribeTopicPartitionsResponseTopic(error_code=error.code, name=name))
            continue
        start = _first_partition(request, name)
        if room == 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=start)
            break
        end = min(len(topic.partitions), start + room)
        response.topics.append(_described(context, topic, range(start, end)))
        room -= max(0, end - start)
        if end < len(topic.partitions):
            response.next_cursor = Cursor(topic_name=name, partition_index=end)
            break
    return response


def _names(context: RequestContext, request: DescribeTopicPartitionsRequest) -> list[str]:
    """Return the topics from the cursor on, in the order of their names."""
    if request.topics:
        names = sorted({topic.name for topic in request.topics})
    else:
        names = [
            topic.name
            for topic in context.broker.topics
            if context.authorize(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
        ]
    return names if request.cursor is None else [name for name in names if name >= request.cursor.topic_name]


def _first_partition(request: DescribeTopicPartitionsRequest, name: str) -> int:
    if request.cursor is None or request.cursor.topic_name != name:
        return 0
    return max(0, request.cursor.partition_index)


def _found(context: RequestContext, name: str) -> Topic:
    context.require(Operation.DESCRIBE, ResourceType.TOPIC, name)
    topic = context.broker.topics.get(name)
    if topic is None:
        check_name(name)
        raise KafkaError(f"there is no topic {name}", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


def _described(context: RequestContext, topic: Topic, indexes: range) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[_partition(context, topic, index) for index in indexes],
        topic_authorized_operations=context.allowed_operations(ResourceType.TOPIC, topic.name),
    )


def _partition(context: RequestContext, topic: Topic, index: int) -> DescribeTopicPartitionsResponsePartition:
    view = view_partition(context.broker, topic, index)
    return DescribeTopicPartitionsResponsePartition(
        error_code=view.error_code,
        partition_index=index,
        leader_id=view.leader,
        leader_epoch=view.leader_epoch,
        replica_nodes=view.replicas,
        isr_nodes=view.isr,
        eligible_leader_replicas=[],  # null, which the schema allows, makes the Java client fail
        last_known_elr=[],
        offline_replicas=view.offline,
    )
