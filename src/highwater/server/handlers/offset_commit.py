"""OffsetCommit (key 8), versions 2-10: how far a group has read.

v2-4  a retention time of the client's own
v6    the leader epoch of the last record read
v7    static members (KIP-345)
v9    members of consumer groups (KIP-848); a generation of a group that is not there is GROUP_ID_NOT_FOUND
v10   topics by id
Commits for topics that do not exist are refused, each by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.broker.pending_answer import PendingAnswer, when_committed
from highwater.groups.offset_commits import Committer
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import TopicId
from highwater.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from highwater.broker.group_shard import LoadedShard
    from highwater.server.request_context import RequestContext

MEMBER_EPOCHS_FROM: Final = 9
TOPIC_IDS_FROM: Final = 10


def handle(
    context: RequestContext, request: OffsetCommitRequest
) -> OffsetCommitResponse | PendingAnswer[OffsetCommitResponse]:
    """Commit what may be committed; answer when it is replicated."""
    try:
        context.require(Operation.READ, ResourceType.GROUP, request.group_id)
        shard = context.broker.groups.shard_of(request.group_id)
        response = _commit(context, shard, request)
    except KafkaError as error:
        return _refused(request, error.code)
    return when_committed([shard.journal], response, lambda code: _refused(request, code))


def _commit(context: RequestContext, shard: LoadedShard, request: OffsetCommitRequest) -> OffsetCommitResponse:
    refusals = [_refusal(context, topic) for topic in request.topics]
    committer = Committer(
        request.group_id,
        request.member_id,
        request.group_instance_id,
        request.generation_id_or_member_epoch,
        knows_member_epochs=context.version >= MEMBER_EPOCHS_FROM,
    )
    errors = shard.commit(
        committer,
        [
            (topic.name, () if refusal else topic.partitions)
            for topic, refusal in zip(request.topics, refusals, strict=True)
        ],
        retention_ms=request.retention_time_ms,
    )
    return OffsetCommitResponse(
        topics=[
            _answer(topic, [refusal] * len(topic.partitions) if refusal else of_topic)
            for topic, refusal, of_topic in zip(request.topics, refusals, errors, strict=True)
        ]
    )


def _refusal(context: RequestContext, topic: OffsetCommitRequestTopic) -> ErrorCode:
    """Return why nothing can be committed for this topic, if so; find its name if the request gives its id."""
    topics = context.broker.topics
    if context.version >= TOPIC_IDS_FROM:
        name = topics.name_of(TopicId(topic.topic_id))
        if name is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        topic.name = name
    if not context.authorize(Operation.READ, ResourceType.TOPIC, topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE if topic.name in topics else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _refused(request: OffsetCommitRequest, error: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(topics=[_answer(topic, [error] * len(topic.partitions)) for topic in request.topics])


def _answer(topic: OffsetCommitRequestTopic, errors: list[ErrorCode]) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=asked.partition_index, error_code=error)
            for asked, error in zip(topic.partitions, errors, strict=True)
        ],
    )
