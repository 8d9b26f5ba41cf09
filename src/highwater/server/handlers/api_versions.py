"""ApiVersions (key 18), versions 0-4: what can this broker do?

A client that asks in a version we do not know gets a version 0 answer with UNSUPPORTED_VERSION and the table, so that
it can ask again; the connection stays open. The connection passes `None` as the request in that case.
v3  features: the finalized ones, which clients act on; we list one only when it works
v3  the client's software has a name and version that can be a metric's label, or the answer is INVALID_REQUEST
"""

import re
from typing import Final

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from highwater.server.api_table import API_TABLE
from highwater.server.features import FEATURES, level_in_force
from highwater.server.request_context import RequestContext

SOFTWARE_NAMED_FROM: Final = 3
FEATURE_LEVEL_0_FROM: Final = 4
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def handle(context: RequestContext, request: ApiVersionsRequest | None) -> ApiVersionsResponse:
    """Return the table of APIs that clients may call."""
    if request is not None and context.version >= SOFTWARE_NAMED_FROM and not _is_well_named(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    # Clients that do not know version 4 take a lowest level of 0 for an error (KAFKA-17011).
    lowest_level = 0 if context.version >= FEATURE_LEVEL_0_FROM else 1
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE if request is not None else ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[
            ApiVersion(api_key=api.key, min_version=api.advertised_from, max_version=api.latest_version)
            for api in API_TABLE
            if not api.between_brokers
        ],
        supported_features=[
            SupportedFeatureKey(
                name=feature.name,
                min_version=max(feature.lowest_level, lowest_level),
                max_version=feature.highest_level,
            )
            for feature in FEATURES
        ],
        finalized_features_epoch=0,
        finalized_features=[
            FinalizedFeatureKey(name=feature.name, min_version_level=level, max_version_level=level)
            for feature in FEATURES
            if (level := level_in_force(feature, context.broker.config))
        ],
    )


def _is_well_named(request: ApiVersionsRequest) -> bool:
    names = (request.client_software_name, request.client_software_version)
    return all(_SOFTWARE.fullmatch(name) for name in names)
