"""ApiVersions (key 18): which APIs a broker serves, in which versions."""

from highwater.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, string


class ApiVersionsRequest(Message, key=18, versions="0-4", flexible="3+"):
    """Who is asking."""

    client_software_name: str = string(versions="3+")
    client_software_version: str = string(versions="3+")


class ApiVersion(Struct):
    """The versions in which one API is served."""

    api_key: int = int16()
    min_version: int = int16()
    max_version: int = int16()


class SupportedFeatureKey(Struct):
    """The levels of a cluster-wide feature that this broker knows."""

    name: str = string()
    min_version: int = int16()
    max_version: int = int16()


class FinalizedFeatureKey(Struct):
    """The level of a cluster-wide feature that is in force."""

    name: str = string()
    max_version_level: int = int16()
    min_version_level: int = int16()


class ApiVersionsResponse(Message, key=18, response=True, versions="0-4", flexible="3+"):
    """The APIs that this broker serves."""

    error_code: int = int16()
    api_keys: list[ApiVersion] = array(ApiVersion)
    throttle_time_ms: int = int32(versions="1+")
    supported_features: list[SupportedFeatureKey] = array(SupportedFeatureKey, versions="3+", tag=0)
    finalized_features_epoch: int = int64(versions="3+", default=-1, tag=1)
    finalized_features: list[FinalizedFeatureKey] = array(FinalizedFeatureKey, versions="3+", tag=2)
    zk_migration_ready: bool = boolean(versions="3+", tag=3)
