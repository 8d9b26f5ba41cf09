"""What has settings, as the config APIs name it, and who may see or change them."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from highwater.model.errors import ErrorCode, KafkaError
from highwater.security.authorizer import ResourceType

if TYPE_CHECKING:
    from highwater.security.authorizer import Operation
    from highwater.server.request_context import RequestContext


class ConfigResourceType(IntEnum):
    """The numbers of the wire. Source: Apache Kafka 4.1, `ConfigResource.Type`."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


SERVED: Final = frozenset({ConfigResourceType.TOPIC, ConfigResourceType.BROKER, ConfigResourceType.GROUP})


def known_type(number: int) -> ConfigResourceType:
    """Return the type, or refuse what has no settings here."""
    if number not in SERVED:
        raise KafkaError(
            f"topics (2), brokers (4) and groups (32) have settings here, resources of type {number} do not",
            code=ErrorCode.INVALID_REQUEST,
        )
    return ConfigResourceType(number)


def authorize_config(context: RequestContext, operation: Operation, kind: ConfigResourceType, name: str) -> None:
    """Refuse a caller who may not do `operation` on the settings of this resource."""
    if kind is ConfigResourceType.TOPIC:
        context.require(operation, ResourceType.TOPIC, name)
    elif kind is ConfigResourceType.GROUP:
        context.require(operation, ResourceType.GROUP, name)
    else:
        context.require(operation, ResourceType.CLUSTER)
