"""FindCoordinator (key 10), versions 0-6: which broker coordinates a group, or a transactional id?

v1  the kind of key: 0 a group, 1 a transactional id
v4  several keys at once (KIP-699)
The first question makes the topic that the answer is about.
Not served: share groups (v6, kind 2): INVALID_REQUEST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.broker.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
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
TRANSACTION: Final = 1
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
    broker = context.broker
    if kind not in {GROUP, TRANSACTION}:
        return _nowhere(key, KafkaError(f"coordinators of kind {kind} are not served", code=ErrorCode.INVALID_REQUEST))
    try:
        if kind == GROUP:
            context.require(Operation.DESCRIBE, ResourceType.GROUP, key)
            topic = await _internal_topic(context, OFFSETS_TOPIC)
            partition = topic.partitions[broker.groups.partition_of(key)]
        else:
            context.require(Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key)
            topic = await _internal_topic(context, TRANSACTIONS_TOPIC)
            partition = topic.partitions[broker.transactions.partition_of(key)]
    except KafkaError as error:
        return _nowhere(key, error)
    live = broker.cluster.brokers.get(partition.leader)
    address = None if live is None else live.listeners.get(context.listener_name)
    if address is None:
        return _nowhere(key, KafkaError("no broker leads its partition", code=ErrorCode.COORDINATOR_NOT_AVAILABLE))
    return Coordinator(key=key, node_id=partition.leader, host=address.host, port=address.port)


async def _internal_topic(context: RequestContext, name: str) -> Topic:
    topic = context.broker.topics.get(name)
    if topic is not None:
        return topic
    try:
        return await context.broker.topic_admin.create_automatically(name)
    except KafkaError as error:
        raise KafkaError(f"{name} cannot be made: {error.message}", code=ErrorCode.COORDINATOR_NOT_AVAILABLE) from error


def _nowhere(key: str, error: KafkaError) -> Coordinator:
    return Coordinator(
        key=key, node_id=NOWHERE, host="", port=NOWHERE, error_code=error.code, error_message=error.message
    )
