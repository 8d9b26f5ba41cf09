"""OffsetFetch (key 9), versions 1-10: how far groups have read.

v2   all topics (null); an error of the whole group
v5   leader epochs
v7   `require_stable`: a partition that an open transaction is about to move is UNSTABLE_OFFSET_COMMIT
v8   several groups at once
v9   members of consumer groups say who they are (KIP-848)
v10  topics by id
A partition without a committed offset is -1 and no error; so is every partition of a group that does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.broker.pending_answer import PendingAnswer, when_committed
from highwater.groups.offset_commits import check_fetch
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import NO_TOPIC_ID, TopicId
from highwater.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from highwater.security.authorizer import Operation, ResourceType

if TYPE_CHECKING:
    from collections.abc import Callable

    from highwater.broker.group_shard import LoadedShard
    from highwater.groups.offsets import GroupOffsets
    from highwater.server.request_context import RequestContext

GROUP_ERRORS_FROM: Final = 2
SEVERAL_GROUPS_FROM: Final = 8
TOPIC_IDS_FROM: Final = 10
NO_OFFSET: Final = -1


def handle(
    context: RequestContext, request: OffsetFetchRequest
) -> OffsetFetchResponse | PendingAnswer[OffsetFetchResponse]:
    """Answer every group by itself, once what is told is committed."""
    fetch = _Fetch(context, require_stable=request.require_stable)
    if context.version >= SEVERAL_GROUPS_FROM:
        asked = request.groups
        shape: Callable[[list[OffsetFetchResponseGroup]], OffsetFetchResponse] = _several
    else:
        asked = [_as_group(request)]
        shape = _single_before_2 if context.version < GROUP_ERRORS_FROM else _single
    answers = [fetch.group(group) for group in asked]
    journals = [shard.journal for shard in fetch.shards]
    return when_committed(journals, shape(answers), lambda code: shape([_refused(group, code) for group in asked]))


class _Fetch:
    """One request under way, and the shards that it has read from."""

    def __init__(self, context: RequestContext, *, require_stable: bool) -> None:
        self._context = context
        self._require_stable = require_stable
        self.shards: list[LoadedShard] = []

    def group(self, asked: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
        """Answer for one group."""
        context = self._context
        try:
            context.require(Operation.DESCRIBE, ResourceType.GROUP, asked.group_id)
            shard = context.broker.groups.shard_of(asked.group_id)
        except KafkaError as error:
            return _refused(asked, error.code)
        refusal = check_fetch(shard.core, asked.group_id, asked.member_id, asked.member_epoch)
        if refusal:
            return _refused(asked, refusal)
        self.shards.append(shard)
        if self._require_stable:
            shard.ask_replicas(asked.group_id)
        offsets = shard.core.offsets_of(asked.group_id)
        topics = self._all_topics(offsets) if asked.topics is None else asked.topics
        return OffsetFetchResponseGroup(
            group_id=asked.group_id, topics=[self._topic(topic, offsets) for topic in topics]
        )

    def _all_topics(self, offsets: GroupOffsets) -> list[OffsetFetchRequestTopics]:
        """Return everything that is committed and that the caller may know of."""
        context = self._context
        return [
            OffsetFetchRequestTopics(
                name=name, topic_id=topic.id if topic is not None else NO_TOPIC_ID, partition_indexes=list(partitions)
            )
            for name, partitions in offsets.topics().items()
            if context.authorize(Operation.DESCRIBE, ResourceType.TOPIC, name)
            and ((topic := context.broker.topics.get(name)) is not None or context.version < TOPIC_IDS_FROM)
        ]

    def _topic(self, asked: OffsetFetchRequestTopics, offsets: GroupOffsets) -> OffsetFetchResponseTopics:
        error = self._find_topic(asked)
        return OffsetFetchResponseTopics(
            name=asked.name,
            topic_id=asked.topic_id,
            partitions=[
                _no_offset(index, error) if error else self._partition(asked.name, index, offsets)
                for index in asked.partition_indexes
            ],
        )

    def _find_topic(self, asked: OffsetFetchRequestTopics) -> ErrorCode:
        context = self._context
        if context.version >= TOPIC_IDS_FROM and not asked.name:
            name = context.broker.topics.name_of(TopicId(asked.topic_id))
            if name is None:
                return ErrorCode.UNKNOWN_TOPIC_ID
            asked.name = name
        if not context.authorize(Operation.DESCRIBE, ResourceType.TOPIC, asked.name):
            return ErrorCode.TOPIC_AUTHORIZATION_FAILED
        return ErrorCode.NONE

    def _partition(self, topic: str, index: int, offsets: GroupOffsets) -> OffsetFetchResponsePartitions:
        if self._require_stable and offsets.is_pending(topic, index):
            return _no_offset(index, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        committed = offsets.get(topic, index)
        if committed is None:
            return _no_offset(index, ErrorCode.NONE)
        return OffsetFetchResponsePartitions(
            partition_index=index,
            committed_offset=committed.offset,
            committed_leader_epoch=committed.leader_epoch,
            metadata=committed.metadata,
        )


def _no_offset(index: int, error: ErrorCode) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(partition_index=index, committed_offset=NO_OFFSET, error_code=error)


def _refused(asked: OffsetFetchRequestGroup, error: ErrorCode) -> OffsetFetchResponseGroup:
    """Return the error of the whole group; partitions repeat it for versions that know no other place for it."""
    topics = [
        OffsetFetchResponseTopics(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[_no_offset(index, error) for index in topic.partition_indexes],
        )
        for topic in asked.topics or ()
    ]
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics, error_code=error)


def _as_group(request: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    """Return the one group of a request before version 8, as later versions say it."""
    topics = None
    if request.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        ]
    return OffsetFetchRequestGroup(group_id=request.group_id, topics=topics)


def _several(answers: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
    for answer in answers:
        if answer.error_code:
            answer.topics = []
    return OffsetFetchResponse(groups=answers)


def _single(answers: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
    (answer,) = answers
    if answer.error_code:
        return OffsetFetchResponse(error_code=answer.error_code)
    return _single_before_2(answers)


def _single_before_2(answers: list[OffsetFetchResponseGroup]) -> OffsetFetchResponse:
    (answer,) = answers
    return OffsetFetchResponse(
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in answer.topics
        ]
    )
