"""InitProducerId (key 22), versions 0-5: an id and an epoch for an idempotent producer.

v3  a producer names the id and epoch it has, to get a higher epoch after an error (KIP-360); without a transactional id
    it simply gets a new id, as in Apache Kafka
Not served yet: transactional ids: COORDINATOR_NOT_AVAILABLE, on which clients wait and ask again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext


async def handle(context: RequestContext, request: InitProducerIdRequest) -> InitProducerIdResponse:
    """Give out a new id."""
    try:
        _check(context, request)
        return InitProducerIdResponse(producer_id=await context.broker.producer_ids.take(), producer_epoch=0)
    except KafkaError as error:
        return InitProducerIdResponse(error_code=error.code, producer_id=-1, producer_epoch=-1)


def _check(context: RequestContext, request: InitProducerIdRequest) -> None:
    if request.transactional_id is None:
        context.require(Operation.IDEMPOTENT_WRITE, ResourceType.CLUSTER)
        return
    if not request.transactional_id:
        raise KafkaError("a transactional id must not be empty", code=ErrorCode.INVALID_REQUEST)
    context.require(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, request.transactional_id)
    raise KafkaError("transactions are not served yet", code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
