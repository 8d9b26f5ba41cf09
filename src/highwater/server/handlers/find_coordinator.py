"""FindCoordinator (key 10), versions 0-6: which broker coordinates a group?

v1  the kind of key: 0 a group, 1 a transactional id
v4  several keys at once (KIP-699)
The first question makes the topic that the answer is about.
Not served: transactional ids, and share groups (v6, kind 2): INVALID_REQUEST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.broker.topics import OFFSETS_TOPIC
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.broker.topics import Topic
    from highwater.server.request_context import RequestContext

GROUP: Final = 0
SEVERAL_FROM: Final = 4
NOWHERE: Final = -1


async def handle(context: RequestContext, request: FindCoordinatorRequest) -> FindCoordinatorResponse:
    """Find the coordinator of each key by itself."""
    keys = request.coordinator_keys if context.version >= SEVERAL_FROM else [request.key]
    found = [await _find(context, request.key_type, key) for key in keys]
    if context.version >= SEVERAL_FROM:
        return FindCoordinatorResponse(coordinators=found)
    (only,) = found
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message,
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


async def _find(context: RequestContext, kind: int, key: str) -> Coordinator:
    if kind != GROUP:
        return _nowhere(key, KafkaError(f"coordinators of kind {kind} are not served", code=ErrorCode.INVALID_REQUEST))
    try:
        context.require(Operation.DESCRIBE, ResourceType.GROUP, key)
        topic = await _offsets_topic(context)
    except KafkaError as error:
        return _nowhere(key, error)
    leader = topic.partitions[context.broker.groups.partition_of(key)].leader
    broker = context.broker.cluster.brokers.get(leader)
    address = None if broker is None else broker.listeners.get(context.listener_name)
    if address is None:
        return _nowhere(key, KafkaError("no broker leads this group", code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
    return Coordinator(key=key, node_id=leader, host=address.host, port=address.port)


async def _offsets_topic(context: RequestContext) -> Topic:
    topic = context.broker.topics.get(OFFSETS_TOPIC)
    if topic is not None:
        return topic
    try:
        return await context.broker.topic_admin.create_automatically(OFFSETS_TOPIC)
    except KafkaError as error:
        raise KafkaError(
            f"{OFFSETS_TOPIC} cannot be made: {error.message}", code=ErrorCode.COORDINATOR_NOT_AVAILABLE
        ) from error


def _nowhere(key: str, error: KafkaError) -> Coordinator:
    return Coordinator(
        key=key, node_id=NOWHERE, host="", port=NOWHERE, error_code=error.code, error_message=error.message
    )
