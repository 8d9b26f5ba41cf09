"""UpdateFeatures (key 57), versions 0-2: put another level of `transaction.version` in force (KIP-584, KIP-1022).

The level is a dynamic setting of all brokers, so that it is kept and told to everybody like those. `group.version` is
decided by `group.coordinator.rebalance.protocols` and cannot be changed here.
v1  how a level may be lowered is a kind of upgrade; validate_only
v2  one error for the whole request: all features change, or none
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.broker.config_admin import EVERY_BROKER
from highwater.config.edits import Edit, EditKind
from highwater.config.settings.transactions import TRANSACTION_VERSION_LEVEL
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from highwater.security.authorizer import Operation, ResourceType
from highwater.server.features import BY_NAME, TRANSACTION_VERSION, level_in_force

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext

KINDS_FROM: Final = 1
ONLY_UP: Final = 1


async def handle(context: RequestContext, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    """Check every feature before any is changed."""
    try:
        context.require(Operation.ALTER, ResourceType.CLUSTER)
        for asked in request.feature_updates:
            _check(context, asked)
        for asked in request.feature_updates:
            edit = Edit(TRANSACTION_VERSION_LEVEL.name, EditKind.SET, str(asked.max_version_level))
            await context.broker.config_admin.edit_broker(EVERY_BROKER, [edit], validate_only=request.validate_only)
    except KafkaError as error:
        return UpdateFeaturesResponse(
            error_code=error.code,
            error_message=error.message,
            results=[
                UpdatableFeatureResult(feature=asked.feature, error_code=error.code, error_message=error.message)
                for asked in request.feature_updates
            ],
        )
    return UpdateFeaturesResponse(
        results=[UpdatableFeatureResult(feature=asked.feature) for asked in request.feature_updates]
    )


def _check(context: RequestContext, asked: FeatureUpdateKey) -> None:
    """Raise unless the level may be put in force."""
    feature = BY_NAME.get(asked.feature)
    if feature is None:
        raise KafkaError(f"there is no feature {asked.feature}", code=ErrorCode.INVALID_UPDATE_VERSION)
    if feature is not TRANSACTION_VERSION:
        raise KafkaError(
            f"{feature.name} follows group.coordinator.rebalance.protocols", code=ErrorCode.INVALID_UPDATE_VERSION
        )
    level = asked.max_version_level
    if not feature.lowest_level <= level <= feature.highest_level:
        raise KafkaError(
            f"{feature.name} has levels {feature.lowest_level} to {feature.highest_level}, not {level}",
            code=ErrorCode.INVALID_UPDATE_VERSION,
        )
    may_fall = asked.upgrade_type != ONLY_UP if context.version >= KINDS_FROM else asked.allow_downgrade
    current = level_in_force(feature, context.broker.config)
    if level < current and not may_fall:
        raise KafkaError(
            f"{feature.name} is at {current}; ask for a downgrade to lower it", code=ErrorCode.INVALID_UPDATE_VERSION
        )
