"""DescribeConfigs (key 32), versions 1-4: settings, their values, and where each value comes from.

v1  synonyms: every place that gives the setting a value, the one in force first
v3  the type and a sentence about each setting
Topics, brokers and consumer groups have settings; a broker without a name stands for what was set for all of them.
Sensitive values are never shown.
Not served: loggers and client metrics: INVALID_REQUEST.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.model.errors import KafkaError
from highwater.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)
from highwater.security.authorizer import Operation
from highwater.server.config_resources import ConfigResourceType, authorize_config, known_type

if TYPE_CHECKING:
    from highwater.config.entries import ConfigEntry
    from highwater.server.request_context import RequestContext


def handle(context: RequestContext, request: DescribeConfigsRequest) -> DescribeConfigsResponse:
    """Describe each resource by itself."""
    return DescribeConfigsResponse(results=[_described(context, request, asked) for asked in request.resources])


def _described(
    context: RequestContext, request: DescribeConfigsRequest, asked: DescribeConfigsResource
) -> DescribeConfigsResult:
    result = DescribeConfigsResult(resource_type=asked.resource_type, resource_name=asked.resource_name)
    try:
        entries = _entries(context, asked)
    except KafkaError as error:
        result.error_code, result.error_message = error.code, error.message
        return result
    result.configs = [
        _shown(entry, synonyms=request.include_synonyms, documentation=request.include_documentation)
        for entry in entries
    ]
    return result


def _entries(context: RequestContext, asked: DescribeConfigsResource) -> list[ConfigEntry]:
    resource_type = known_type(asked.resource_type)
    authorize_config(context, Operation.DESCRIBE_CONFIGS, resource_type, asked.resource_name)
    keys = asked.configuration_keys or None  # an empty list asks for all, like null
    admin = context.broker.config_admin
    if resource_type is ConfigResourceType.TOPIC:
        return admin.describe_topic(asked.resource_name, keys)
    if resource_type is ConfigResourceType.GROUP:
        return admin.groups.describe(asked.resource_name, keys)
    return admin.describe_broker(asked.resource_name, keys)


def _shown(entry: ConfigEntry, *, synonyms: bool, documentation: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=[
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in (entry.synonyms if synonyms else ())
        ],
        config_type=entry.wire_type,
        documentation=entry.doc if documentation else None,
    )
