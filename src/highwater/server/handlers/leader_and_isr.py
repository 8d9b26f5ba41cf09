"""LeaderAndIsr (key 4), versions 5-7, between brokers: the controller says whom to lead and whom to follow.

v5  topic ids
An older controller than the newest one heard of: STALE_CONTROLLER_EPOCH. Older news about a partition than what is
followed already is refused for that partition alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.server.between_brokers import roles_of

if TYPE_CHECKING:
    from highwater.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
    from highwater.server.request_context import RequestContext


async def handle(context: RequestContext, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
    """Take the roles."""
    return await roles_of(context).lead_and_follow(request)
