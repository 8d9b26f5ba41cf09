"""LeaveGroup (key 13), versions 0-5: members go.

v3  several at once; an administrator names static members by their instance id (KIP-345)
v5  a reason (KIP-800), which the log shows
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.broker.pending_answer import PendingAnswer, when_committed
from highwater.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.model.errors import ErrorCode
    from highwater.server.request_context import RequestContext

SEVERAL_FROM: Final = 3


def handle(
    context: RequestContext, request: LeaveGroupRequest
) -> LeaveGroupResponse | PendingAnswer[LeaveGroupResponse]:
    """Take the members out; before version 3 there is one, and its error is the answer's own."""
    context.require(Operation.READ, ResourceType.GROUP, request.group_id)
    shard = context.broker.groups.shard_of(request.group_id)
    if context.version >= SEVERAL_FROM:
        response = LeaveGroupResponse(members=shard.leave(request.group_id, request.members))
    else:
        (answer,) = shard.leave(request.group_id, [MemberIdentity(member_id=request.member_id)])
        response = LeaveGroupResponse(error_code=answer.error_code)
    return when_committed([shard.journal], response, _refusal)


def _refusal(error: ErrorCode) -> LeaveGroupResponse:
    return LeaveGroupResponse(error_code=error)
