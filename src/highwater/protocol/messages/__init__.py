"""Every message of the wire, one file per API, imported when it is first asked for.

The facts (fields, versions, defaults) are those of Apache Kafka 4.1's own message definitions; LeaderAndIsr,
StopReplica, UpdateMetadata and ControlledShutdown are from 3.9, the last release that had them.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Final

from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.schema import Message

API_NAMES: Final[Mapping[int, str]] = {
    0: "Produce",
    1: "Fetch",
    2: "ListOffsets",
    3: "Metadata",
    18: "ApiVersions",
    19: "CreateTopics",
    22: "InitProducerId",
}


@cache
def request_class(api_key: int) -> type[Message]:
    """Return the request of an API."""
    return _message_class(api_key, "Request")


@cache
def response_class(api_key: int) -> type[Message]:
    """Return the response of an API."""
    return _message_class(api_key, "Response")


def _message_class(api_key: int, suffix: str) -> type[Message]:
    name = API_NAMES.get(api_key)
    if name is None:
        raise KafkaError(f"there is no API with key {api_key}", code=ErrorCode.UNSUPPORTED_VERSION)
    module = import_module(f"{__name__}.{_snake_case(name)}")
    cls: type[Message] = getattr(module, name + suffix)
    return cls


def _snake_case(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
