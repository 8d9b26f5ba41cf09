"""TxnOffsetCommit (key 28), versions 0-5: offsets that count when, and if, the transaction is committed.

v2  the leader epoch of the last record read
v3  members say who they are, so that one that was thrown out commits nothing (KIP-447)
v4  TRANSACTION_ABORTABLE, which is INVALID_TXN_STATE before
v5  the commit itself makes the group's partition part of the transaction (KIP-890)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.broker.pending_answer import PendingAnswer
from highwater.broker.topics import OFFSETS_TOPIC
from highwater.broker.transaction_check import Entry
from highwater.groups.offset_commits import Committer
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import ProducerId, TopicPartition
from highwater.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from highwater.security.authorizer import Operation, ResourceType
from highwater.server.transactional_errors import fenced_as, refused_commit
from highwater.transactions.transaction import Producer

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext

KNOWS_LOADING_FROM: Final = 2
ABORTABLE_FROM: Final = 4
ADDS_ITSELF_FROM: Final = 5


def handle(
    context: RequestContext, request: TxnOffsetCommitRequest
) -> TxnOffsetCommitResponse | PendingAnswer[TxnOffsetCommitResponse]:
    """Write what may be committed, once the coordinator of the transaction says that it is open."""
    try:
        context.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        context.require(Operation.READ, ResourceType.GROUP, request.group_id)
        index = context.broker.groups.partition_of(request.group_id)
        partition = context.broker.groups.shard_at(index).journal.partition
    except KafkaError as error:
        return _refused(context, request, error.code)
    answer = PendingAnswer[TxnOffsetCommitResponse](lambda code: _refused(context, request, code))

    def decided(codes: list[ErrorCode]) -> None:
        (code,) = codes
        if code:
            answer.refuse(KafkaError(code=refused_commit(code)))
        else:
            _commit(context, request, answer)

    producer = Producer(ProducerId(request.producer_id), request.producer_epoch)
    adds = context.version >= ADDS_ITSELF_FROM
    gate = context.broker.transaction_gate
    if gate.is_open(request.transactional_id, partition, producer, adds=adds):
        _commit(context, request, answer)
    else:
        gate.enter(Entry(request.transactional_id, producer, [TopicPartition(OFFSETS_TOPIC, index)], adds), decided)
    return answer


def _commit(
    context: RequestContext, request: TxnOffsetCommitRequest, answer: PendingAnswer[TxnOffsetCommitResponse]
) -> None:
    refusals = [_refusal(context, topic) for topic in request.topics]
    committer = Committer(
        request.group_id, request.member_id, request.group_instance_id, request.generation_id, is_transactional=True
    )
    try:
        shard = context.broker.groups.shard_of(request.group_id)
        errors = shard.commit_in_transaction(
            committer,
            [
                (topic.name, () if refusal else topic.partitions)
                for topic, refusal in zip(request.topics, refusals, strict=True)
            ],
            producer_id=ProducerId(request.producer_id),
            producer_epoch=request.producer_epoch,
        )
    except KafkaError as error:
        answer.refuse(error)
        return
    response = TxnOffsetCommitResponse(
        topics=[
            _answer(topic, [refusal] * len(topic.partitions) if refusal else of_topic)
            for topic, refusal, of_topic in zip(request.topics, refusals, errors, strict=True)
        ]
    )
    shard.journal.when_committed(lambda error: answer.resolve(response) if error is None else answer.refuse(error))


def _refusal(context: RequestContext, topic: TxnOffsetCommitRequestTopic) -> ErrorCode:
    if not context.authorize(Operation.READ, ResourceType.TOPIC, topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE if topic.name in context.broker.topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _refused(context: RequestContext, request: TxnOffsetCommitRequest, code: ErrorCode) -> TxnOffsetCommitResponse:
    told = fenced_as(code, known=False)
    if code is ErrorCode.TRANSACTION_ABORTABLE and context.version < ABORTABLE_FROM:
        told = ErrorCode.INVALID_TXN_STATE
    elif code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS and context.version < KNOWS_LOADING_FROM:
        told = ErrorCode.COORDINATOR_NOT_AVAILABLE  # The other one stops producers from before 2.0.
    return TxnOffsetCommitResponse(topics=[_answer(topic, [told] * len(topic.partitions)) for topic in request.topics])


def _answer(topic: TxnOffsetCommitRequestTopic, errors: list[ErrorCode]) -> TxnOffsetCommitResponseTopic:
    return TxnOffsetCommitResponseTopic(
        name=topic.name,
        partitions=[
            TxnOffsetCommitResponsePartition(partition_index=asked.partition_index, error_code=error)
            for asked, error in zip(topic.partitions, errors, strict=True)
        ],
    )
