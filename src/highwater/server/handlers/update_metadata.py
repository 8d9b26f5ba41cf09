"""UpdateMetadata (key 6), versions 7-8, between brokers: the controller says what clients may ask about.

v7  topic ids
v8  whether all topics are named, so that those that are not are gone
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.server.between_brokers import roles_of

if TYPE_CHECKING:
    from highwater.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
    from highwater.server.request_context import RequestContext


async def handle(context: RequestContext, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
    """Know it."""
    return await roles_of(context).learn(request)
