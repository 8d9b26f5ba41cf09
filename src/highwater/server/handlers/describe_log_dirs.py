"""DescribeLogDirs (key 35), versions 1-4: which partitions are in which log dir, and how large are they?

v3  an error for the request as a whole
v4  the size of each log dir's file system, and what is left of it
Every log dir is listed, with the partitions asked for that are in it; null asks for all. A partition on its way from
another log dir is a future replica, and its lag is what has yet to be copied (KIP-113).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.model.ids import TopicPartition
    from highwater.server.request_context import RequestContext
    from highwater.storage.log_dir import LogDir


def handle(context: RequestContext, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse:
    """Describe every log dir of this broker."""
    if not context.authorize(Operation.DESCRIBE, ResourceType.CLUSTER):
        return DescribeLogDirsResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = None
    if request.topics is not None:
        wanted = {(asked.topic, index) for asked in request.topics for index in asked.partitions}
    return DescribeLogDirsResponse(
        results=[_described(context, log_dir, wanted) for log_dir in context.broker.replicas.log_dirs]
    )


def _described(context: RequestContext, log_dir: LogDir, wanted: set[tuple[str, int]] | None) -> DescribeLogDirsResult:
    if not log_dir.is_online:
        return DescribeLogDirsResult(log_dir=str(log_dir.path), error_code=ErrorCode.KAFKA_STORAGE_ERROR)
    result = DescribeLogDirsResult(log_dir=str(log_dir.path), topics=_topics(context, log_dir, wanted))
    try:
        space = log_dir.space()
    except OSError:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    else:
        result.total_bytes, result.usable_bytes = space
    return result


def _topics(
    context: RequestContext, log_dir: LogDir, wanted: set[tuple[str, int]] | None
) -> list[DescribeLogDirsTopic]:
    topics: dict[str, DescribeLogDirsTopic] = {}

    def add(name: TopicPartition, found: DescribeLogDirsPartition) -> None:
        if wanted is None or name in wanted:
            topics.setdefault(name.topic, DescribeLogDirsTopic(name=name.topic)).partitions.append(found)

    for name in sorted(log_dir.partitions):
        partition = context.broker.partitions.get(name.topic, name.partition)
        if partition is not None:
            lag = max(0, partition.high_watermark - partition.log.log_end_offset)
            add(name, _described_log(name, partition.log.size_bytes, lag))
    for move in context.broker.replicas.moves.to(log_dir):
        name, copy = move.partition.name, move.copy
        size_bytes = 0 if copy is None else copy.size_bytes
        add(name, _described_log(name, size_bytes, move.lag, is_future=True))
    return list(topics.values())


def _described_log(
    name: TopicPartition, size_bytes: int, lag: int, *, is_future: bool = False
) -> DescribeLogDirsPartition:
    return DescribeLogDirsPartition(
        partition_index=name.partition, partition_size=size_bytes, offset_lag=lag, is_future_key=is_future
    )
