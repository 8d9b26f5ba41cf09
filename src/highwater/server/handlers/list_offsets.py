"""ListOffsets (key 2), versions 1-10: which offset is earliest, latest, or first at a time?

v2  isolation level: "latest" is the last stable offset for read_committed
v4  callers state the leader epoch they know; we fence those that are behind
v7  timestamp -3: the offset of the largest timestamp (KIP-734)
v8  timestamp -4: the earliest local offset, which without tiered storage is the earliest
A replica id of -2 (a debugging consumer) asks about the replica that is asked, even if it follows, and its whole log.
Not served: -5 (last tiered offset): there is none, so -1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.broker.partition import Partition
    from highwater.server.request_context import RequestContext

DEBUGGING_CONSUMER: Final = -2
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
READ_COMMITTED: Final = 1
NOTHING_FOUND: Final = (-1, -1)


def handle(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    """Answer each partition by itself."""
    committed_only = request.isolation_level == READ_COMMITTED
    debugging = request.replica_id == DEBUGGING_CONSUMER
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _answer(context, topic.name, asked, committed_only=committed_only, debugging=debugging)
                    for asked in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def _answer(
    context: RequestContext, topic: str, asked: ListOffsetsPartition, *, committed_only: bool, debugging: bool
) -> ListOffsetsPartitionResponse:
    try:
        context.require(Operation.DESCRIBE, ResourceType.TOPIC, topic)
        partitions = context.broker.partitions
        partition = (partitions.replica_of if debugging else partitions.leader_of)(topic, asked.partition_index)
        partition.check_epoch(asked.current_leader_epoch)
        if debugging and asked.timestamp == LATEST:
            timestamp, offset = -1, partition.log.log_end_offset
        else:
            timestamp, offset = _find(partition, asked.timestamp, committed_only=committed_only)
    except KafkaError as error:
        return ListOffsetsPartitionResponse(
            partition_index=asked.partition_index, error_code=error.code, timestamp=-1, offset=-1
        )
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=timestamp,
        offset=offset,
        leader_epoch=partition.log.leader_epochs.epoch_at(offset),
    )


def _find(partition: Partition, timestamp: int, *, committed_only: bool) -> tuple[int, int]:
    """Return (timestamp, offset) of what was asked for, or NOTHING_FOUND."""
    readable_end = partition.last_stable_offset if committed_only else partition.high_watermark
    if timestamp == LATEST:
        if not partition.knows_what_is_committed:
            raise KafkaError("the new leader is still learning what is committed", code=ErrorCode.OFFSET_NOT_AVAILABLE)
        return -1, readable_end
    if timestamp in {EARLIEST, EARLIEST_LOCAL}:
        return -1, partition.log.log_start_offset
    if timestamp == LATEST_TIERED:
        return NOTHING_FOUND
    if timestamp < LATEST_TIERED:
        raise KafkaError(f"timestamp {timestamp} has no meaning", code=ErrorCode.UNSUPPORTED_VERSION)
    found = (
        partition.log.offset_of_max_timestamp()
        if timestamp == MAX_TIMESTAMP
        else partition.log.offset_for_timestamp(timestamp)
    )
    if found is None or found.offset >= readable_end:
        return NOTHING_FOUND
    return found.timestamp, found.offset
