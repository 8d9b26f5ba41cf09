"""IncrementalAlterConfigs (key 44): change single settings of a resource."""

from highwater.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, string


class AlterableConfig(Struct):
    """One change of a setting."""

    name: str = string()
    config_operation: int = int8()  # 0: set, 1: delete, 2: append, 3: subtract
    value: str | None = string(nullable="0+")


class AlterConfigsResource(Struct):
    """A resource and the changes to make."""

    resource_type: int = int8()  # 2: topic, 4: broker, 8: loggers of a broker
    resource_name: str = string()
    configs: list[AlterableConfig] = array(AlterableConfig)


class IncrementalAlterConfigsRequest(Message, key=44, versions="0-1", flexible="1+"):
    """The resources to change."""

    resources: list[AlterConfigsResource] = array(AlterConfigsResource)
    validate_only: bool = boolean()


class AlterConfigsResourceResponse(Struct):
    """What became of one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    resource_type: int = int8()
    resource_name: str = string()


class IncrementalAlterConfigsResponse(Message, key=44, response=True, versions="0-1", flexible="1+"):
    """What became of each resource."""

    throttle_time_ms: int = int32()
    responses: list[AlterConfigsResourceResponse] = array(AlterConfigsResourceResponse)
