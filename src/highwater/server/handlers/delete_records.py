"""DeleteRecords (key 21), versions 0-2: move the start of logs forward.

-1 stands for the high watermark: everything that consumers can see goes. Answered when the logs of all replicas on live
brokers start there, so that no other leader has the records again, or after the timeout of the request; with the low
watermark, the smallest log start offset over these replicas. Refused for topics that are only compacted. All of it as
Apache Kafka does.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from highwater.broker.low_watermark import all_start_at, delete_records_before, low_watermark
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.broker.partition import Partition
    from highwater.server.request_context import RequestContext

HIGH_WATERMARK: Final = -1
NO_WATERMARK: Final = -1
LONGEST_WAIT_S: Final = 60.0


async def handle(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Move all starts, then wait for the other replicas; answer each partition by itself."""
    deadline = asyncio.get_running_loop().time() + min(max(request.timeout_ms, 0) / 1000, LONGEST_WAIT_S)
    topics: list[DeleteRecordsTopicResult] = []
    moved: list[tuple[Partition, int, DeleteRecordsPartitionResult]] = []
    for topic in request.topics:
        results: list[DeleteRecordsPartitionResult] = []
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
        for asked in topic.partitions:
            result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=NO_WATERMARK)
            results.append(result)
            try:
                partition, start = _delete(context, topic.name, asked)
            except KafkaError as error:
                result.error_code = error.code
            else:
                moved.append((partition, start, result))
    for partition, start, result in moved:
        live = context.broker.cluster.brokers
        result.error_code = await all_start_at(partition, start, live, deadline=deadline)
        if not result.error_code:
            result.low_watermark = low_watermark(partition, live)
    return DeleteRecordsResponse(topics=topics)


def _delete(context: RequestContext, topic: str, asked: DeleteRecordsPartition) -> tuple[Partition, int]:
    """Let the leader's log start where it shall. Raises KafkaError."""
    context.require(Operation.DELETE, ResourceType.TOPIC, topic)
    partition = context.broker.partitions.leader_of(topic, asked.partition_index)
    start = _new_start(partition, asked.offset)
    if start > partition.log.log_start_offset:  # what is below is gone already, which is what is asked for
        delete_records_before(partition, start)
    return partition, start


def _new_start(partition: Partition, asked: int) -> int:
    """Return where the log shall start, or refuse it."""
    if not partition.log.config.delete:
        raise KafkaError(f"{partition.name} is compacted only", code=ErrorCode.POLICY_VIOLATION)
    offset = partition.high_watermark if asked == HIGH_WATERMARK else asked
    if not 0 <= offset <= partition.high_watermark:
        raise KafkaError(f"{offset} is not a committed offset", code=ErrorCode.OFFSET_OUT_OF_RANGE)
    return offset
