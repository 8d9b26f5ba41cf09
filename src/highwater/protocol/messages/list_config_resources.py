"""ListConfigResources (key 74): the resources that have settings."""

from highwater.protocol.schema import Message, Struct, array, int8, int16, int32, string


class ListConfigResourcesRequest(Message, key=74, versions="0-1", flexible="0+"):
    """Which types of resource to list; empty stands for all."""

    resource_types: list[int] = array(
        int8, versions="1+"
    )  # 2: topic, 4: broker, 8: loggers, 16: client metrics, 32: group


class ConfigResource(Struct):
    """A resource."""

    resource_name: str = string()
    resource_type: int = int8(versions="1+", default=16)


class ListConfigResourcesResponse(Message, key=74, response=True, versions="0-1", flexible="0+"):
    """The resources that have settings."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    config_resources: list[ConfigResource] = array(ConfigResource)
