"""InitProducerId (key 22), versions 0-6: an id and an epoch for an idempotent or a transactional producer.

A transactional id keeps its producer id; every new instance gets the next epoch, and the older ones are kept out. If
one of them has left a transaction open, that is aborted first: CONCURRENT_TRANSACTIONS, and the client asks again.
v3  a producer names the id and epoch it has, to get a higher epoch after an error (KIP-360); without a transactional id
    it simply gets a new id, as in Apache Kafka
v4  PRODUCER_FENCED, which is INVALID_PRODUCER_EPOCH before
v6  transactions that somebody else coordinates: they never time out, and one that is open can be kept and ended by who
    asks (KIP-939); only with `transaction.two.phase.commit.enable`
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.broker.pending_answer import when_committed
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import NO_PRODUCER_ID, ProducerId
from highwater.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from highwater.security.authorizer import Operation, ResourceType
from highwater.server.transactional_errors import fenced_as
from highwater.transactions import init_producer
from highwater.transactions.states import State
from highwater.transactions.transaction import NO_EPOCH, Producer

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext

FENCED_FROM: Final = 4


async def handle(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Give out an id of its own, or the next epoch of a transactional id."""
    try:
        if request.transactional_id is not None:
            return await _transactional(context, request, request.transactional_id)
        context.require(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
        return InitProducerIdResponse(producer_id=await context.broker.producer_ids.take(), producer_epoch=0)
    except KafkaError as error:
        return _refused(context, error.code)


async def _transactional(
    context: RequestContext, request: InitProducerIdRequest, transactional_id: str
) -> InitProducerIdResponse:
    context.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id)
    broker = context.broker
    asked = init_producer.Asked(
        transactional_id,
        request.transaction_timeout_ms,
        _expected(request),
        in_two_phases=request.enable_2pc,
        keeps_open=request.keep_prepared_txn,
    )
    fresh_id = None
    if init_producer.needs_fresh_id(broker.transactions.shard_of(transactional_id).core, asked):
        fresh_id = await broker.producer_ids.take()
    shard = broker.transactions.shard_of(transactional_id)  # It may be another one by now.
    decided = shard.init_producer(asked, fresh_id=fresh_id)
    if decided.state is State.EMPTY:
        response = InitProducerIdResponse(producer_id=decided.producer.id, producer_epoch=decided.producer.epoch)
    elif decided.is_kept:
        response = InitProducerIdResponse(
            producer_id=decided.holder.id,
            producer_epoch=decided.holder.epoch,
            ongoing_txn_producer_id=decided.producer.id,
            ongoing_txn_producer_epoch=decided.producer.epoch,
        )
    else:
        response = _refused(context, ErrorCode.CONCURRENT_TRANSACTIONS)
    pending = when_committed([shard.journal], response, lambda code: _refused(context, code))
    return pending if isinstance(pending, InitProducerIdResponse) else await pending.wait()


def _expected(request: InitProducerIdRequest) -> Producer | None:
    """Return who the producer says it was; both or neither has to be there."""
    if (request.producer_id == NO_PRODUCER_ID) != (request.producer_epoch == NO_EPOCH):
        raise KafkaError("a producer id without an epoch, or the reverse", code=ErrorCode.INVALID_REQUEST)
    if request.producer_id == NO_PRODUCER_ID:
        return None
    return Producer(ProducerId(request.producer_id), request.producer_epoch)


def _refused(context: RequestContext, code: ErrorCode) -> InitProducerIdResponse:
    told = fenced_as(code, known=context.version >= FENCED_FROM)
    return InitProducerIdResponse(error_code=told, producer_id=NO_PRODUCER_ID, producer_epoch=NO_EPOCH)
