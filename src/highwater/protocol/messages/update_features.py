"""UpdateFeatures (key 57): which level of a feature the cluster's clients may rely on."""

from highwater.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, string


class FeatureUpdateKey(Struct):
    """A feature and its new level."""

    feature: str = string()
    max_version_level: int = int16()
    allow_downgrade: bool = boolean(versions="0")
    upgrade_type: int = int8(versions="1+", default=1)  # 1: up only; 2: down if nothing is lost; 3: down


class UpdateFeaturesRequest(Message, key=57, versions="0-2", flexible="0+"):
    """The levels to put in force."""

    timeout_ms: int = int32(default=60_000)
    feature_updates: list[FeatureUpdateKey] = array(FeatureUpdateKey)
    validate_only: bool = boolean(versions="1+")


class UpdatableFeatureResult(Struct):
    """What became of one feature."""

    feature: str = string()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class UpdateFeaturesResponse(Message, key=57, response=True, versions="0-2", flexible="0+"):
    """What became of all of it; up to version 1, also of each feature."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    results: list[UpdatableFeatureResult] = array(UpdatableFeatureResult, versions="0-1")
