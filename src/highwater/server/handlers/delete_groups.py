"""DeleteGroups (key 42), versions 0-2: forget groups without members, and all that they have committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.broker.pending_answer import PendingAnswer, when_committed
from highwater.groups.removal import check_group_deletion, deletion_of_group
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.broker.journal import Journal
    from highwater.server.request_context import RequestContext


def handle(
    context: RequestContext, request: DeleteGroupsRequest
) -> DeleteGroupsResponse | PendingAnswer[DeleteGroupsResponse]:
    """Delete each group by itself."""
    journals: list[Journal] = []
    results = [
        DeletableGroupResult(group_id=group_id, error_code=_delete(context, group_id, journals))
        for group_id in request.groups_names
    ]

    def refusal(error: ErrorCode) -> DeleteGroupsResponse:
        return DeleteGroupsResponse(
            results=[DeletableGroupResult(group_id=each, error_code=error) for each in request.groups_names]
        )

    return when_committed(journals, DeleteGroupsResponse(results=results), refusal)


def _delete(context: RequestContext, group_id: str, journals: list[Journal]) -> ErrorCode:
    try:
        context.require(Operation.DELETE, ResourceType.GROUP, group_id)
        shard = context.broker.groups.shard_of(group_id)
    except KafkaError as error:
        return error.code
    refusal = check_group_deletion(shard.core, group_id)
    if not refusal:
        shard.write(deletion_of_group(shard.core, group_id))
        journals.append(shard.journal)
    return refusal
