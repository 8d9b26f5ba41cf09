"""ApiVersions (key 18), versions 0-4: what can this broker do?

A client that asks in a version we do not know gets a version 0 answer with UNSUPPORTED_VERSION and the table, so that
it can ask again; the connection stays open. The connection passes `None` as the request in that case.
v3  features: the finalized ones, which clients act on; we list one only when it works
"""

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from highwater.server.api_table import API_TABLE
from highwater.server.request_context import RequestContext


def handle(context: RequestContext, request: ApiVersionsRequest | None) -> ApiVersionsResponse:
    """Return the table of APIs that clients may call."""
    del context
    return ApiVersionsResponse(
        error_code=ErrorCode.NONE if request is not None else ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[
            ApiVersion(api_key=api.key, min_version=api.advertised_from, max_version=api.latest_version)
            for api in API_TABLE
            if not api.between_brokers
        ],
    )
