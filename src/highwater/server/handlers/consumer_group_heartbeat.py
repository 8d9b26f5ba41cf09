"""ConsumerGroupHeartbeat (key 68), versions 0-1: join, report to and leave a consumer group (KIP-848).

v1  subscriptions by pattern; the member brings its own id (KIP-1082)
A pattern is in RE2's syntax and must match a topic's whole name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.broker.pending_answer import PendingAnswer, when_committed
from highwater.config.settings.groups import GROUP_COORDINATOR_REBALANCE_PROTOCOLS
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext


def handle(
    context: RequestContext, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | PendingAnswer[ConsumerGroupHeartbeatResponse]:
    """Take the report to its group; answer when what it changed is replicated."""
    try:
        _check(context, request)
        shard = context.broker.groups.shard_of(request.group_id)
        response = shard.report(
            request, version=context.version, client_id=context.client_id, client_host=context.client_address
        )
    except KafkaError as error:
        return ConsumerGroupHeartbeatResponse(error_code=error.code, error_message=error.message)
    return when_committed([shard.journal], response, _refusal)


def _check(context: RequestContext, request: ConsumerGroupHeartbeatRequest) -> None:
    if "consumer" not in context.broker.config[GROUP_COORDINATOR_REBALANCE_PROTOCOLS]:
        raise KafkaError(
            "group.coordinator.rebalance.protocols does not list consumer", code=ErrorCode.UNSUPPORTED_VERSION
        )
    context.require(Operation.READ, ResourceType.GROUP, request.group_id)
    for topic in request.subscribed_topic_names or ():
        context.require(Operation.DESCRIBE, ResourceType.TOPIC, topic)


def _refusal(error: ErrorCode) -> ConsumerGroupHeartbeatResponse:
    return ConsumerGroupHeartbeatResponse(error_code=error)
