"""Produce (key 0), versions 3-13 (advertised from 0): append batches, one per partition.

acks 0: no answer; an error closes the connection, which is all that such a client can notice.
acks 1: answered when the batch is in the leader's log (and synced, if `flush.messages` asks for it).
acks -1: answered when the batch is committed.
v8   record-level errors and an error message
v10  who leads, and where, when it is not this broker (KIP-951)
v13  topics by id
Staged here, written once per turn by the connection: see `highwater.broker.appends`.
"""

from __future__ import annotations

from highwater.broker.delayed_produce import DelayedProduce
from highwater.broker.partition import Partition
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import Offset, TopicId
from highwater.protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
    TopicProduceResponse,
)
from highwater.protocol.records.batch import HEADER_BYTES, read_header
from highwater.protocol.records.errors import RecordAtFault
from highwater.protocol.records.validate import FIRST_PRODUCE_VERSION_WITH_ZSTD, check_codec_for_version
from highwater.security.authorizer import Operation, ResourceType
from highwater.server.current_leader import LEADER_IS_ELSEWHERE, current_leader, leader_address
from highwater.server.request_context import RequestContext

ACKS_NONE = 0
ACKS_ALL = -1
TOPICS_BY_ID_FROM = 13


def handle(context: RequestContext, request: ProduceRequest) -> ProduceResponse | DelayedProduce | None:
    """Stage every batch; one bad partition never spoils the rest."""
    response = ProduceResponse()
    delayed: DelayedProduce | None = None
    for topic in request.topic_data:
        answers: list[PartitionProduceResponse] = []
        refusal = _refusal(context, request, topic)
        for data in topic.partition_data:
            receipt = PartitionProduceResponse(index=data.index, base_offset=-1)
            answers.append(receipt)
            try:
                if refusal is not None:
                    raise refusal
                partition, end_offset = _append(context, request.acks, topic.name, data, receipt)
                if request.acks == ACKS_ALL or partition.syncs_appends:
                    if delayed is None:
                        delayed = DelayedProduce(context.broker.loop, response, timeout_ms=request.timeout_ms)
                    delayed.expect(partition, end_offset, receipt, for_all=request.acks == ACKS_ALL)
            except KafkaError as error:
                receipt.error_code = error.code
                receipt.error_message = error.message or None
                if error.code in LEADER_IS_ELSEWHERE:
                    _name_leader(context, response, topic.name, receipt)
                if isinstance(error, RecordAtFault) and error.record_index is not None:
                    fault = BatchIndexAndErrorMessage(
                        batch_index=error.record_index, batch_index_error_message=error.message
                    )
                    receipt.record_errors = [fault]
        response.responses.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        )
    if request.acks == ACKS_NONE:
        _check_without_answer(response)
        return None
    return delayed or response


def _append(
    context: RequestContext,
    acks: int,
    topic_name: str,
    data: PartitionProduceData,
    receipt: PartitionProduceResponse,
) -> tuple[Partition, Offset]:
    """Stage one partition's batch; return the partition and the offset behind the batch."""
    partition = context.broker.partitions.leader_of(topic_name, data.index)
    if data.records is None or not len(data.records):
        raise KafkaError("a Produce without records", code=ErrorCode.INVALID_RECORD)
    if context.version < FIRST_PRODUCE_VERSION_WITH_ZSTD and len(data.records) >= HEADER_BYTES:
        check_codec_for_version(read_header(data.records), context.version)
    if acks == ACKS_ALL:
        partition.check_enough_replicas()
    staged = partition.stage(data.records, now_ms=context.broker.now_ms(), receipt=receipt)
    receipt.base_offset = staged.base_offset
    receipt.log_append_time_ms = staged.append_time_ms
    receipt.log_start_offset = staged.log_start_offset
    return partition, Offset(staged.last_offset + 1)


def _refusal(context: RequestContext, request: ProduceRequest, topic: TopicProduceData) -> KafkaError | None:
    """Return why nothing may be appended to this topic, if so; find its name if the request gives its id."""
    if request.acks not in {-1, 0, 1}:
        return KafkaError(f"acks must be -1, 0 or 1, not {request.acks}", code=ErrorCode.INVALID_REQUIRED_ACKS)
    if context.version >= TOPICS_BY_ID_FROM:
        name = context.broker.topics.name_of(TopicId(topic.topic_id))
        if name is None:
            return KafkaError("no topic has this id", code=ErrorCode.UNKNOWN_TOPIC_ID)
        topic.name = name
    if not context.authorize(Operation.WRITE, ResourceType.TOPIC, topic.name):
        return KafkaError("", code=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    if context.broker.topics.is_internal(topic.name) and context.client_id != "__admin_client":
        return KafkaError(f"{topic.name} is written by the broker itself", code=ErrorCode.INVALID_TOPIC_EXCEPTION)
    return None


def _name_leader(
    context: RequestContext, response: ProduceResponse, topic: str, receipt: PartitionProduceResponse
) -> None:
    """Say who leads a partition that is not ours, and where that broker is."""
    leader = current_leader(context, topic, receipt.index)
    if leader is None:
        return
    receipt.current_leader = LeaderIdAndEpoch(leader_id=leader.broker, leader_epoch=leader.epoch)
    found = leader_address(context, leader.broker)
    if found is not None and all(endpoint.node_id != leader.broker for endpoint in response.node_endpoints):
        response.node_endpoints.append(
            NodeEndpoint(node_id=leader.broker, host=found.address.host, port=found.address.port, rack=found.rack)
        )


def _check_without_answer(response: ProduceResponse) -> None:
    """Nobody reads an answer to acks=0: a failure is told by closing the connection."""
    for topic in response.responses:
        for receipt in topic.partition_responses:
            if receipt.error_code:
                raise KafkaError(
                    f"acks=0 append to {topic.name}-{receipt.index} failed: {receipt.error_message}",
                    code=ErrorCode(receipt.error_code),
                )
