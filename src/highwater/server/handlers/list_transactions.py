"""ListTransactions (key 66), versions 0-2: the transactional ids that this broker coordinates (KIP-664).

v1  only those with a transaction that began so long ago
v2  only those whose id matches a pattern (RE2)
Names of states that there are not come back as unknown, and let nothing pass.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.groups.consumer.topics import compiled
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    TransactionState,
)
from highwater.security.authorizer import Operation, ResourceType
from highwater.transactions.states import BY_LABEL
from highwater.transactions.transaction import NOT_STARTED

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext
    from highwater.transactions.transaction import Transaction


def handle(context: RequestContext, request: ListTransactionsRequest) -> ListTransactionsResponse:
    """List what the caller may know of and the filters let through."""
    coordinator = context.broker.transactions
    if coordinator.is_loading:
        return ListTransactionsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    try:
        pattern = compiled(request.transactional_id_pattern) if request.transactional_id_pattern else None
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    now_ms = context.broker.now_ms()
    states = set(request.state_filters)
    producer_ids = set(request.producer_id_filters)

    def is_wanted(known: Transaction) -> bool:
        return (
            (not states or known.state.label in states)
            and (not producer_ids or known.producer.id in producer_ids)
            and (request.duration_filter < 0 or _has_lasted(known, now_ms) > request.duration_filter)
            and (pattern is None or pattern.fullmatch(known.transactional_id) is not None)
            and context.authorize(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, known.transactional_id)
        )

    return ListTransactionsResponse(
        unknown_state_filters=[name for name in request.state_filters if name not in BY_LABEL],
        transaction_states=[
            TransactionState(
                transactional_id=known.transactional_id,
                producer_id=known.producer.id,
                transaction_state=known.state.label,
            )
            for shard in coordinator.shards()
            for known in shard.core.transactions.values()
            if is_wanted(known)
        ],
    )


def _has_lasted(known: Transaction, now_ms: int) -> int:
    return -1 if known.started_at_ms == NOT_STARTED else now_ms - known.started_at_ms
