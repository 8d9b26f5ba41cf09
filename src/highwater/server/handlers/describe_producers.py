"""DescribeProducers (key 61), version 0: which idempotent producers does a partition remember? (KIP-664)"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.model.errors import KafkaError
from highwater.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicResponse,
)
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext


def handle(context: RequestContext, request: DescribeProducersRequest) -> DescribeProducersResponse:
    """Answer each partition by itself."""
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[_described(context, topic.name, index) for index in topic.partition_indexes],
            )
            for topic in request.topics
        ]
    )


def _described(context: RequestContext, topic: str, index: int) -> PartitionResponse:
    result = PartitionResponse(partition_index=index)
    try:
        context.require(Operation.READ, ResourceType.TOPIC, topic)
        partition = context.broker.partitions.leader_of(topic, index)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    result.active_producers = [
        ProducerState(
            producer_id=state.producer_id,
            producer_epoch=state.epoch,
            last_sequence=state.last_sequence,
            last_timestamp=state.last_timestamp,
            coordinator_epoch=state.coordinator_epoch,
            current_txn_start_offset=state.transaction_first_offset,
        )
        for state in partition.log.producers
    ]
    return result
