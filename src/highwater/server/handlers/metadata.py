"""Metadata (key 3), versions 0-13: which topics are there, and which broker leads each partition?

v0   an empty list asks for all topics; from v1 on null does, and an empty list asks for none
v4   the caller says whether an unknown topic may be made; before, it may
v8   which operations the caller may do
v10  topic ids in the answer; v12: also in the question
A topic that is made because it was asked for is in the answer at once: Apache Kafka answers with an error first, and
the client asks again. A broker that has just started and knows nobody answers when it does: librdkafka does not ask
again for minutes when it is told of no broker at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.broker.topic_rules import check_name
from highwater.config.settings import node
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import NO_TOPIC_ID, TopicId
from highwater.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from highwater.security.authorizer import Operation, ResourceType
from highwater.server.partition_view import view_partition

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from typing import Any

    from highwater.broker.topics import Topic
    from highwater.server.request_context import RequestContext

NULL_MEANS_ALL_FROM: Final = 1
IDS_IN_QUESTION_FROM: Final = 12
NOT_ASKED: Final = -(2**31)
"""In place of the operations that the caller may do, when it did not ask."""


def handle(
    context: RequestContext, request: MetadataRequest
) -> MetadataResponse | Coroutine[Any, Any, MetadataResponse]:
    """Answer at once, unless topics have to be made first or we know nothing yet."""
    if not context.broker.cluster.is_known.is_set():
        return _answer_when_known(context, request)
    missing = _to_be_made(context, request)
    return _make_and_answer(context, request, missing) if missing else _answer(context, request, {})


async def _answer_when_known(context: RequestContext, request: MetadataRequest) -> MetadataResponse:
    """Wait for the controller to speak to us; without that the broker gives up its start, and ends."""
    await context.broker.cluster.is_known.wait()
    answer = handle(context, request)
    return answer if isinstance(answer, MetadataResponse) else await answer


def _to_be_made(context: RequestContext, request: MetadataRequest) -> list[str]:
    """Return the topics that are asked for by name, are not there, and may be made by asking."""
    broker = context.broker
    if not (request.topics and request.allow_auto_topic_creation and broker.config[node.AUTO_CREATE_TOPICS_ENABLE]):
        return []
    names = dict.fromkeys(asked.name for asked in request.topics if asked.name)
    return [name for name in names if broker.topics.get(name) is None and _may_make(context, name)]


def _may_make(context: RequestContext, name: str) -> bool:
    return context.authorize(Operation.DESCRIBE, ResourceType.TOPIC, name) and (
        context.authorize(Operation.CREATE, ResourceType.CLUSTER)
        or context.authorize(Operation.CREATE, ResourceType.TOPIC, name)
    )


async def _make_and_answer(context: RequestContext, request: MetadataRequest, missing: list[str]) -> MetadataResponse:
    refused: dict[str, ErrorCode] = {}
    for name in missing:
        try:
            await context.broker.topic_admin.create_automatically(name)
        except KafkaError as error:
            refused[name] = error.code
    return _answer(context, request, refused)


def _answer(context: RequestContext, request: MetadataRequest, refused: dict[str, ErrorCode]) -> MetadataResponse:
    cluster = context.broker.cluster
    return MetadataResponse(
        brokers=[
            MetadataResponseBroker(node_id=live.id, host=address.host, port=address.port, rack=live.rack)
            for live, address in cluster.listed_for(context.listener_name, now_s=context.broker.loop.time())
        ],
        cluster_id=cluster.id,
        controller_id=cluster.controller_id,
        topics=_topics(context, request, refused),
        cluster_authorized_operations=(
            context.allowed_operations(ResourceType.CLUSTER)
            if request.include_cluster_authorized_operations
            else NOT_ASKED
        ),
    )


def _topics(
    context: RequestContext, request: MetadataRequest, refused: dict[str, ErrorCode]
) -> list[MetadataResponseTopic]:
    operations = request.include_topic_authorized_operations
    asked_for_all = request.topics is None or (not request.topics and context.version < NULL_MEANS_ALL_FROM)
    if asked_for_all:
        return [
            _described(context, topic, operations=operations)
            for topic in context.broker.topics
            if context.authorize(Operation.DESCRIBE, ResourceType.TOPIC, topic.name)
        ]
    unique = {(asked.name, asked.topic_id): asked for asked in request.topics or ()}
    return [_asked_for(context, asked, refused, operations=operations) for asked in unique.values()]


def _asked_for(
    context: RequestContext, asked: MetadataRequestTopic, refused: dict[str, ErrorCode], *, operations: bool
) -> MetadataResponseTopic:
    try:
        topic = _found(context, asked, refused)
    except KafkaError as error:
        name = asked.name or (None if context.version >= IDS_IN_QUESTION_FROM else "")
        return MetadataResponseTopic(error_code=error.code, name=name, topic_id=asked.topic_id)
    return _described(context, topic, operations=operations)


def _found(context: RequestContext, asked: MetadataRequestTopic, refused: dict[str, ErrorCode]) -> Topic:
    """Return the topic that is asked about, or raise what the answer should say of it."""
    topics = context.broker.topics
    if asked.topic_id != NO_TOPIC_ID or asked.name is None:
        if context.version < IDS_IN_QUESTION_FROM:
            raise KafkaError("topics are asked for by id from version 12 on", code=ErrorCode.INVALID_REQUEST)
        topic = topics.with_id(TopicId(asked.topic_id))
        if topic is None or not context.authorize(Operation.DESCRIBE, ResourceType.TOPIC, topic.name):
            raise KafkaError("no topic has this id", code=ErrorCode.UNKNOWN_TOPIC_ID)
        return topic
    context.require(Operation.DESCRIBE, ResourceType.TOPIC, asked.name)
    topic = topics.get(asked.name)
    if topic is None:
        check_name(asked.name)
        raise KafkaError("", code=refused.get(asked.name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    return topic


def _described(context: RequestContext, topic: Topic, *, operations: bool) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.is_internal,
        partitions=[_partition(context, topic, index) for index in range(len(topic.partitions))],
        topic_authorized_operations=(
            context.allowed_operations(ResourceType.TOPIC, topic.name) if operations else NOT_ASKED
        ),
    )


def _partition(context: RequestContext, topic: Topic, index: int) -> MetadataResponsePartition:
    view = view_partition(context.broker, topic, index)
    return MetadataResponsePartition(
        error_code=view.error_code,
        partition_index=index,
        leader_id=view.leader,
        leader_epoch=view.leader_epoch,
        replica_nodes=view.replicas,
        isr_nodes=view.isr,
        offline_replicas=view.offline,
    )
