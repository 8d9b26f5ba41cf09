"""DeleteRecords (key 21), versions 0-2: move the start of logs forward.

-1 stands for the high watermark: everything that consumers can see goes. The answer has the leader's log start offset.
Unlike Apache Kafka's it does not wait for the other replicas, whose logs start there with what they fetch next. Refused
for topics that are only compacted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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


def handle(context: RequestContext, request: DeleteRecordsRequest) -> DeleteRecordsResponse:
    """Answer each partition by itself."""
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_delete(context, topic.name, asked) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _delete(context: RequestContext, topic: str, asked: DeleteRecordsPartition) -> DeleteRecordsPartitionResult:
    result = DeleteRecordsPartitionResult(partition_index=asked.partition_index, low_watermark=NO_WATERMARK)
    try:
        context.require(Operation.DELETE, ResourceType.TOPIC, topic)
        partition = context.broker.partitions.leader_of(topic, asked.partition_index)
        new_start = _new_start(partition, asked.offset)
        if new_start > partition.log.log_start_offset:  # what is below is gone already, which is what is asked for
            partition.log.delete_records_before(new_start)
        result.low_watermark = partition.log.log_start_offset
    except KafkaError as error:
        result.error_code = error.code
    return result


def _new_start(partition: Partition, asked: int) -> int:
    """Return where the log shall start, or refuse it."""
    if not partition.log.config.delete:
        raise KafkaError(f"{partition.name} is compacted only", code=ErrorCode.POLICY_VIOLATION)
    offset = partition.high_watermark if asked == HIGH_WATERMARK else asked
    if not 0 <= offset <= partition.high_watermark:
        raise KafkaError(f"{offset} is not a committed offset", code=ErrorCode.OFFSET_OUT_OF_RANGE)
    return offset
