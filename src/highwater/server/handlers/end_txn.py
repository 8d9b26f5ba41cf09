"""EndTxn (key 26), versions 0-5: commit or abort a transaction.

Answered when the outcome is in the coordinator's log: from then on it happens, whatever dies.
v2  PRODUCER_FENCED, which is INVALID_PRODUCER_EPOCH before
v5  every transaction has an epoch of its own: the answer has the next one, and the same end twice is one end (KIP-890)
Up to version 4, an EndTxn that was lost on its way for long can end a later transaction (KAFKA-17754).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.broker.pending_answer import PendingAnswer, when_committed
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import ProducerId
from highwater.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from highwater.security.authorizer import Operation, ResourceType
from highwater.server.transactional_errors import fenced_as
from highwater.transactions import ending
from highwater.transactions.transaction import Producer

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from highwater.server.request_context import RequestContext

FENCED_FROM: Final = 2
RAISES_EPOCH_FROM: Final = 5


def handle(
    context: RequestContext, request: EndTxnRequest
) -> EndTxnResponse | PendingAnswer[EndTxnResponse] | Coroutine[Any, Any, EndTxnResponse]:
    """Decide, and answer when that is committed."""
    asked = ending.Asked(
        request.transactional_id,
        Producer(ProducerId(request.producer_id), request.producer_epoch),
        request.committed,
        raises_epoch=context.version >= RAISES_EPOCH_FROM,
    )
    try:
        context.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        shard = context.broker.transactions.shard_of(asked.transactional_id)
    except KafkaError as error:
        return _refused(context, error.code)
    if ending.needs_fresh_id(shard.core, asked):
        return _with_fresh_id(context, asked)
    return _end(context, asked, None)


async def _with_fresh_id(context: RequestContext, asked: ending.Asked) -> EndTxnResponse:
    """End the transaction that uses up the epochs of its producer's id."""
    try:
        fresh_id = await context.broker.producer_ids.take()
    except KafkaError as error:
        return _refused(context, error.code)
    result = _end(context, asked, fresh_id)
    return result if isinstance(result, EndTxnResponse) else await result.wait()


def _end(
    context: RequestContext, asked: ending.Asked, fresh_id: ProducerId | None
) -> EndTxnResponse | PendingAnswer[EndTxnResponse]:
    try:
        shard = context.broker.transactions.shard_of(asked.transactional_id)
        producer = shard.end(asked, fresh_id=fresh_id)
    except KafkaError as error:
        return _refused(context, error.code)
    response = EndTxnResponse(producer_id=producer.id, producer_epoch=producer.epoch)
    return when_committed([shard.journal], response, lambda code: _refused(context, code))


def _refused(context: RequestContext, code: ErrorCode) -> EndTxnResponse:
    return EndTxnResponse(error_code=fenced_as(code, known=context.version >= FENCED_FROM))
