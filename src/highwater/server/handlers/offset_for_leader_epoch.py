"""OffsetForLeaderEpoch (key 23), versions 2-4: where did a leader epoch end?

A reader whose position lies beyond the end of its epoch has read what was truncated since, and must go back (KIP-320).
The answer is the largest epoch not above the one asked about and the offset at which it ended; the end of the log for
the current one, -1 for both when the log knows nothing that old.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.model.errors import KafkaError
from highwater.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext


def handle(context: RequestContext, request: OffsetForLeaderEpochRequest) -> OffsetForLeaderEpochResponse:
    """Answer each partition by itself."""
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic, partitions=[_found(context, topic.topic, asked) for asked in topic.partitions]
            )
            for topic in request.topics
        ]
    )


def _found(context: RequestContext, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    result = EpochEndOffset(partition=asked.partition)
    try:
        context.require(Operation.DESCRIBE, ResourceType.TOPIC, topic)
        partition = context.broker.partitions.leader_of(topic, asked.partition)
        partition.check_epoch(asked.current_leader_epoch)
        result.leader_epoch, result.end_offset = partition.log.end_offset_for_epoch(asked.leader_epoch)
    except KafkaError as error:
        result.error_code = error.code
    return result
