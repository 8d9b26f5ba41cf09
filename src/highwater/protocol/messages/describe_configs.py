"""DescribeConfigs (key 32): settings, their values, and where each value comes from."""

from highwater.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, string


class DescribeConfigsResource(Struct):
    """A resource, and which of its settings to show; None stands for all."""

    resource_type: int = int8()  # 2: topic, 4: broker, 8: loggers of a broker, 16: client metrics, 32: group
    resource_name: str = string()
    configuration_keys: list[str] | None = array(string, nullable="0+")


class DescribeConfigsRequest(Message, key=32, versions="1-4", flexible="4+"):
    """The resources to describe."""

    resources: list[DescribeConfigsResource] = array(DescribeConfigsResource)
    include_synonyms: bool = boolean()
    include_documentation: bool = boolean(versions="3+")


class DescribeConfigsSynonym(Struct):
    """Another place where the setting could take its value from."""

    name: str = string()
    value: str | None = string(nullable="0+")
    source: int = int8()


class DescribeConfigsResourceResult(Struct):
    """A setting and its value."""

    name: str = string()
    value: str | None = string(nullable="0+")
    read_only: bool = boolean()
    config_source: int = int8(default=-1)  # 1: topic, 2: broker, 3: all brokers, 4: file, 5: default
    is_sensitive: bool = boolean()
    synonyms: list[DescribeConfigsSynonym] = array(DescribeConfigsSynonym)
    config_type: int = int8(versions="3+")  # 1: boolean, 2: string, 3: int, 4: short, 5: long, 6: double, 7: list
    documentation: str | None = string(versions="3+", nullable="0+")


class DescribeConfigsResult(Struct):
    """The settings of one resource."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    resource_type: int = int8()  # 2: topic, 4: broker, 8: loggers of a broker, 16: client metrics, 32: group
    resource_name: str = string()
    configs: list[DescribeConfigsResourceResult] = array(DescribeConfigsResourceResult)


class DescribeConfigsResponse(Message, key=32, response=True, versions="1-4", flexible="4+"):
    """The settings of each resource."""

    throttle_time_ms: int = int32()
    results: list[DescribeConfigsResult] = array(DescribeConfigsResult)
