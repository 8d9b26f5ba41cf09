"""AddPartitionsToTxn (key 24), versions 0-5: partitions that a transaction is about to write to.

Up to version 3 a producer names those of its own transaction: all of them are added, or none. From version 4 on it is
brokers who ask, for several transactions at once, to add partitions or only to check that they were added (KIP-890).
v2  PRODUCER_FENCED, which is INVALID_PRODUCER_EPOCH before
v5  TRANSACTION_ABORTABLE, which is INVALID_TXN_STATE before
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.broker.pending_answer import PendingAnswer, when_committed
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import ProducerId, TopicPartition
from highwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from highwater.security.authorizer import Operation, ResourceType
from highwater.server.transactional_errors import fenced_as
from highwater.transactions.transaction import CLASSIC_VERSION, RAISES_EPOCH_VERSION, Producer

if TYPE_CHECKING:
    from collections.abc import Callable

    from highwater.broker.journal import Journal
    from highwater.server.request_context import RequestContext

FENCED_FROM: Final = 2
BY_BROKERS_FROM: Final = 4
ABORTABLE_FROM: Final = 5

Errors = dict[TopicPartition, ErrorCode]


def handle(
    context: RequestContext, request: AddPartitionsToTxnRequest
) -> AddPartitionsToTxnResponse | PendingAnswer[AddPartitionsToTxnResponse]:
    """Answer each transaction by itself, when what was decided is committed."""
    if context.version >= BY_BROKERS_FROM:
        context.require(Operation.CLUSTER_ACTION, ResourceType.CLUSTER)
        asked = request.transactions
        shape: Callable[[list[AddPartitionsToTxnResult]], AddPartitionsToTxnResponse] = _several
    else:
        asked = [_only_one(request)]
        shape = _single
    journals: list[Journal] = []
    answers = [_result(each, _decide(context, each, journals)) for each in asked]

    def refused(code: ErrorCode) -> AddPartitionsToTxnResponse:
        return shape([_result(each, dict.fromkeys(_names(each), code)) for each in asked])

    return when_committed(journals, shape(answers), refused)


def _only_one(request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnTransaction:
    return AddPartitionsToTxnTransaction(
        transactional_id=request.v3_and_below_transactional_id,
        producer_id=request.v3_and_below_producer_id,
        producer_epoch=request.v3_and_below_producer_epoch,
        topics=request.v3_and_below_topics,
    )


def _names(asked: AddPartitionsToTxnTransaction) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in asked.topics for index in topic.partitions]


def _decide(context: RequestContext, asked: AddPartitionsToTxnTransaction, journals: list[Journal]) -> Errors:
    """Return an error for each partition."""
    names = _names(asked)
    try:
        if context.version < BY_BROKERS_FROM:  # A broker that asks has checked its client, and leads the partitions.
            context.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, asked.transactional_id)
            errors = {name: _check(context, name) for name in names}
            if any(errors.values()):
                return {name: error or ErrorCode.OPERATION_NOT_ATTEMPTED for name, error in errors.items()}
        shard = context.broker.transactions.shard_of(asked.transactional_id)
        journals.append(shard.journal)
        producer = Producer(ProducerId(asked.producer_id), asked.producer_epoch)
        if asked.verify_only:
            checked = shard.check_partitions(asked.transactional_id, producer, names)
            if ErrorCode.NONE in checked:
                shard.confirm(asked.transactional_id)
            return {name: _told(context, code) for name, code in zip(names, checked, strict=True)}
        version = RAISES_EPOCH_VERSION if context.version >= BY_BROKERS_FROM else CLASSIC_VERSION
        shard.add_partitions(asked.transactional_id, producer, names, client_version=version)
    except KafkaError as error:
        return dict.fromkeys(names, _told(context, error.code))
    return dict.fromkeys(names, ErrorCode.NONE)


def _check(context: RequestContext, name: TopicPartition) -> ErrorCode:
    if not context.authorize(Operation.WRITE, ResourceType.TOPIC, name.topic):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    topic = context.broker.topics.get(name.topic)
    there = topic is not None and 0 <= name.partition < len(topic.partitions)
    return ErrorCode.NONE if there else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _told(context: RequestContext, code: ErrorCode) -> ErrorCode:
    if code is ErrorCode.TRANSACTION_ABORTABLE and context.version < ABORTABLE_FROM:
        return ErrorCode.INVALID_TXN_STATE
    return fenced_as(code, known=context.version >= FENCED_FROM)


def _result(asked: AddPartitionsToTxnTransaction, errors: Errors) -> AddPartitionsToTxnResult:
    return AddPartitionsToTxnResult(
        transactional_id=asked.transactional_id,
        topic_results=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(
                        partition_index=index, partition_error_code=errors[TopicPartition(topic.name, index)]
                    )
                    for index in topic.partitions
                ],
            )
            for topic in asked.topics
        ],
    )


def _several(answers: list[AddPartitionsToTxnResult]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_transaction=answers)


def _single(answers: list[AddPartitionsToTxnResult]) -> AddPartitionsToTxnResponse:
    (only,) = answers
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=only.topic_results)
