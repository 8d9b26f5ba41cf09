"""AlterConfigs (key 33), versions 0-2: replace all settings of a topic, broker or group.

What the request does not name returns to its default; Apache Kafka has IncrementalAlterConfigs instead since 2.3, and
old clients still use this one. `validate_only` checks and changes nothing.
Not served: loggers and client metrics: INVALID_REQUEST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.model.errors import KafkaError
from highwater.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from highwater.security.authorizer import Operation
from highwater.server.config_resources import ConfigResourceType, authorize_config, known_type
from highwater.server.named_once import NamedOnce

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext


async def handle(context: RequestContext, request: AlterConfigsRequest) -> AlterConfigsResponse:
    """Change the resources one after another; one that cannot be changed does not keep the others from it."""
    response = AlterConfigsResponse()
    once = NamedOnce((asked.resource_type, asked.resource_name) for asked in request.resources)
    for asked in request.resources:
        result = AlterConfigsResourceResponse(resource_type=asked.resource_type, resource_name=asked.resource_name)
        try:
            once.check((asked.resource_type, asked.resource_name))
            await _replace(context, asked, validate_only=request.validate_only)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        response.responses.append(result)
    return response


async def _replace(context: RequestContext, asked: AlterConfigsResource, *, validate_only: bool) -> None:
    kind = known_type(asked.resource_type)
    authorize_config(context, Operation.ALTER_CONFIGS, kind, asked.resource_name)
    NamedOnce(config.name for config in asked.configs).check_all()
    configs = {config.name: config.value for config in asked.configs}
    admin = context.broker.config_admin
    if kind is ConfigResourceType.TOPIC:
        await admin.replace_topic(asked.resource_name, configs, validate_only=validate_only)
    elif kind is ConfigResourceType.GROUP:
        await admin.groups.replace(asked.resource_name, configs, validate_only=validate_only)
    else:
        await admin.replace_broker(asked.resource_name, configs, validate_only=validate_only)
