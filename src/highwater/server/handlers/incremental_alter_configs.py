"""IncrementalAlterConfigs (key 44), versions 0-1: change some settings of a topic, broker or group (KIP-339).

SET, DELETE (back to the default), and for lists APPEND and SUBTRACT. `validate_only` checks and changes nothing.
Not served: loggers and client metrics: INVALID_REQUEST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.config.edits import Edit, EditKind
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from highwater.security.authorizer import Operation
from highwater.server.config_resources import ConfigResourceType, authorize_config, known_type
from highwater.server.named_once import NamedOnce

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext


async def handle(context: RequestContext, request: IncrementalAlterConfigsRequest) -> IncrementalAlterConfigsResponse:
    """Change the resources one after another; one that cannot be changed does not keep the others from it."""
    response = IncrementalAlterConfigsResponse()
    once = NamedOnce((asked.resource_type, asked.resource_name) for asked in request.resources)
    for asked in request.resources:
        result = AlterConfigsResourceResponse(resource_type=asked.resource_type, resource_name=asked.resource_name)
        try:
            once.check((asked.resource_type, asked.resource_name))
            await _edit(context, asked, validate_only=request.validate_only)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
        response.responses.append(result)
    return response


async def _edit(context: RequestContext, asked: AlterConfigsResource, *, validate_only: bool) -> None:
    kind = known_type(asked.resource_type)
    authorize_config(context, Operation.ALTER_CONFIGS, kind, asked.resource_name)
    NamedOnce(config.name for config in asked.configs).check_all()
    edits = [_step(config) for config in asked.configs]
    admin = context.broker.config_admin
    if kind is ConfigResourceType.TOPIC:
        await admin.edit_topic(asked.resource_name, edits, validate_only=validate_only)
    elif kind is ConfigResourceType.GROUP:
        await admin.groups.edit(asked.resource_name, edits, validate_only=validate_only)
    else:
        await admin.edit_broker(asked.resource_name, edits, validate_only=validate_only)


def _step(config: AlterableConfig) -> Edit:
    try:
        kind = EditKind(config.config_operation)
    except ValueError:
        raise KafkaError(
            f"there is no config operation {config.config_operation}", code=ErrorCode.INVALID_REQUEST
        ) from None
    return Edit(config.name, kind, config.value)
