"""CreatePartitions (key 37), versions 0-3: give topics more partitions.

The count is the total after the change, and it can only grow. Every topic asked for is in the answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.model.errors import KafkaError
from highwater.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from highwater.security.authorizer import Operation, ResourceType
from highwater.server.named_once import NamedOnce

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext


async def handle(context: RequestContext, request: CreatePartitionsRequest) -> CreatePartitionsResponse:
    """Grow the topics one after another; one that cannot grow does not keep the others from it."""
    once = NamedOnce(asked.name for asked in request.topics)
    unique = {asked.name: asked for asked in request.topics}
    response = CreatePartitionsResponse()
    for asked in unique.values():
        result = CreatePartitionsTopicResult(name=asked.name)
        try:
            once.check(asked.name)
            await _grow(context, asked, validate_only=request.validate_only)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        response.results.append(result)
    return response


async def _grow(context: RequestContext, asked: CreatePartitionsTopic, *, validate_only: bool) -> None:
    context.require(Operation.ALTER, ResourceType.TOPIC, asked.name)
    assignments = None if asked.assignments is None else [assigned.broker_ids for assigned in asked.assignments]
    await context.broker.topic_admin.grow(asked.name, asked.count, assignments, validate_only=validate_only)
