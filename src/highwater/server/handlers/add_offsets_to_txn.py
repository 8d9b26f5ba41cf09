"""AddOffsetsToTxn (key 25), versions 0-4: a transaction is about to commit offsets of a group.

The group's partition of the offsets topic becomes part of the transaction, and gets a marker like the others.
v2  PRODUCER_FENCED, which is INVALID_PRODUCER_EPOCH before
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.broker.pending_answer import PendingAnswer, when_committed
from highwater.broker.topics import OFFSETS_TOPIC
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import ProducerId, TopicPartition
from highwater.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from highwater.security.authorizer import Operation, ResourceType
from highwater.server.transactional_errors import fenced_as
from highwater.transactions.transaction import CLASSIC_VERSION, Producer

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext

FENCED_FROM: Final = 2


def handle(
    context: RequestContext, request: AddOffsetsToTxnRequest
) -> AddOffsetsToTxnResponse | PendingAnswer[AddOffsetsToTxnResponse]:
    """Add the partition, and answer when that is committed."""
    broker = context.broker

    def refused(code: ErrorCode) -> AddOffsetsToTxnResponse:
        return AddOffsetsToTxnResponse(error_code=fenced_as(code, known=context.version >= FENCED_FROM))

    try:
        context.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
        context.require(Operation.READ, ResourceType.GROUP, request.group_id)
        shard = broker.transactions.shard_of(request.transactional_id)
        shard.add_partitions(
            request.transactional_id,
            Producer(ProducerId(request.producer_id), request.producer_epoch),
            [TopicPartition(OFFSETS_TOPIC, broker.groups.partition_of(request.group_id))],
            client_version=CLASSIC_VERSION,
        )
    except KafkaError as error:
        return refused(error.code)
    return when_committed([shard.journal], AddOffsetsToTxnResponse(), refused)
