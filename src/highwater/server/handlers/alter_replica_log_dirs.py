"""AlterReplicaLogDirs (key 34), versions 1-2: move replicas of this broker to other log dirs of it (KIP-113).

A replica that is not here yet is begun in that log dir when it comes; until then the answer is REPLICA_NOT_AVAILABLE,
and Kafka's reassignment tool asks again. How far a move is: DescribeLogDirs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import TopicPartition
from highwater.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDirPartitionResult,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopicResult,
)
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext


def handle(context: RequestContext, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse:
    """Begin every move; one that cannot be begun does not stop the others."""
    is_allowed = context.authorize(Operation.ALTER, ResourceType.CLUSTER)
    topics: dict[str, AlterReplicaLogDirTopicResult] = {}
    for log_dir in request.dirs:
        for topic in log_dir.topics:
            result = topics.setdefault(topic.name, AlterReplicaLogDirTopicResult(topic_name=topic.name))
            for index in topic.partitions:
                code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
                if is_allowed:
                    code = _ask(context, TopicPartition(topic.name, index), log_dir.path)
                result.partitions.append(AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code))
    return AlterReplicaLogDirsResponse(results=list(topics.values()))


def _ask(context: RequestContext, name: TopicPartition, path: str) -> ErrorCode:
    try:
        context.broker.replicas.moves.ask(name, path)
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE
