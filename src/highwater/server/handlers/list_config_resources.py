"""ListConfigResources (key 74), versions 0-1: what has settings?

v0  client metrics only (it was ListClientMetricsResources), of which there are none here
v1  topics, brokers and groups with settings of their own too, those types that the caller names or all
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from highwater.security.authorizer import Operation, ResourceType
from highwater.server.config_resources import ConfigResourceType

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext

TYPES_FROM: Final = 1
_KNOWN: Final = frozenset(ConfigResourceType)


def handle(context: RequestContext, request: ListConfigResourcesRequest) -> ListConfigResourcesResponse:
    """List the resources of the types asked for."""
    if not context.authorize(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if context.version < TYPES_FROM:
        return ListConfigResourcesResponse()
    if not _KNOWN.issuperset(request.resource_types):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    wanted = _KNOWN.intersection(request.resource_types or _KNOWN)
    found: list[ConfigResource] = []
    if ConfigResourceType.TOPIC in wanted:
        found += [_resource(topic.name, ConfigResourceType.TOPIC) for topic in context.broker.topics]
    if ConfigResourceType.BROKER in wanted:
        live = sorted(context.broker.cluster.brokers)
        found += [_resource(str(broker_id), ConfigResourceType.BROKER) for broker_id in live]
    if ConfigResourceType.GROUP in wanted:
        found += [_resource(name, ConfigResourceType.GROUP) for name in context.broker.config_admin.groups]
    return ListConfigResourcesResponse(config_resources=found)


def _resource(name: str, kind: ConfigResourceType) -> ConfigResource:
    return ConfigResource(resource_name=name, resource_type=kind)
