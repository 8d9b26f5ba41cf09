"""DescribeTransactions (key 65), version 0: what is known of transactional ids (KIP-664).

While a transaction is being ended, its partitions are those that have not got their marker yet.
"""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from highwater.broker.pending_answer import PendingAnswer, when_committed
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from highwater.broker.journal import Journal
    from highwater.model.ids import TopicPartition
    from highwater.server.request_context import RequestContext


def handle(
    context: RequestContext, request: DescribeTransactionsRequest
) -> DescribeTransactionsResponse | PendingAnswer[DescribeTransactionsResponse]:
    """Answer each id by itself, once what is told is committed."""
    journals: list[Journal] = []
    described = [_described(context, transactional_id, journals) for transactional_id in request.transactional_ids]

    def refused(code: ErrorCode) -> DescribeTransactionsResponse:
        return DescribeTransactionsResponse(
            transaction_states=[
                TransactionState(error_code=code, transactional_id=transactional_id)
                for transactional_id in request.transactional_ids
            ]
        )

    return when_committed(journals, DescribeTransactionsResponse(transaction_states=described), refused)


def _described(context: RequestContext, transactional_id: str, journals: list[Journal]) -> TransactionState:
    try:
        context.require(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, transactional_id)
        shard = context.broker.transactions.shard_of(transactional_id)
    except KafkaError as error:
        return TransactionState(error_code=error.code, transactional_id=transactional_id)
    known = shard.core.transactions.get(transactional_id)
    if known is None:
        return TransactionState(error_code=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, transactional_id=transactional_id)
    journals.append(shard.journal)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=known.state.label,
        transaction_timeout_ms=known.timeout_ms,
        transaction_start_time_ms=known.started_at_ms,
        producer_id=known.producer.id,
        producer_epoch=known.producer.epoch,
        topics=_topics(context, shard.partitions_left(known)),
    )


def _topics(context: RequestContext, partitions: Iterable[TopicPartition]) -> list[TopicData]:
    """Return the partitions of topics that the caller may know of."""
    return [
        TopicData(topic=topic, partitions=[name.partition for name in names])
        for topic, names in groupby(sorted(partitions), attrgetter("topic"))
        if context.authorize(Operation.DESCRIBE, ResourceType.TOPIC, topic)
    ]
