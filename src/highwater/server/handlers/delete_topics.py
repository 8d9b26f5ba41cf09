"""DeleteTopics (key 20), versions 1-6: delete topics and their data.

v6  topics by id as well as by name
The data is out of sight before the answer leaves; the files go in the background.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import NO_TOPIC_ID, TopicId
from highwater.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from highwater.security.authorizer import Operation, ResourceType
from highwater.server.named_once import NamedOnce

if TYPE_CHECKING:
    from highwater.broker.topics import Topic
    from highwater.server.request_context import RequestContext

TOPIC_DELETION_DISABLED_FROM: Final = 3


async def handle(context: RequestContext, request: DeleteTopicsRequest) -> DeleteTopicsResponse:
    """Delete the topics one after another; one that cannot go does not keep the others from it."""
    asked_for = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    once = NamedOnce(name for asked in asked_for if (name := _name(context, asked)) is not None)
    response = DeleteTopicsResponse()
    for asked in asked_for:
        try:
            once.check(_name(context, asked))
            topic = _found(context, asked)
            await context.broker.topic_admin.delete(topic.name)
        except KafkaError as error:
            response.responses.append(_refusal(context, asked, error))
        else:
            response.responses.append(DeletableTopicResult(name=topic.name, topic_id=topic.id))
    return response


def _name(context: RequestContext, asked: DeleteTopicState) -> str | None:
    return context.broker.topics.name_of(TopicId(asked.topic_id)) if asked.name is None else asked.name


def _found(context: RequestContext, asked: DeleteTopicState) -> Topic:
    """Return the topic to delete, or raise why it cannot be; who may not see a topic does not learn its name."""
    by_id = asked.name is None
    if not by_id and asked.topic_id != NO_TOPIC_ID:
        raise KafkaError("give the topic's name or its id, not both", code=ErrorCode.INVALID_REQUEST)
    topics = context.broker.topics
    topic = topics.with_id(TopicId(asked.topic_id)) if asked.name is None else topics.get(asked.name)
    name = topic.name if topic is not None else asked.name
    may_see = name is not None and context.authorize(Operation.DESCRIBE, ResourceType.TOPIC, name)
    if by_id and (topic is None or not may_see):
        raise KafkaError("no topic has this id", code=ErrorCode.UNKNOWN_TOPIC_ID)
    assert name is not None, "asked for by name, or found by id"
    context.require(Operation.DESCRIBE, ResourceType.TOPIC, name)
    context.require(Operation.DELETE, ResourceType.TOPIC, name)
    if topic is None:
        raise KafkaError(f"there is no topic {name}", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return topic


def _refusal(context: RequestContext, asked: DeleteTopicState, error: KafkaError) -> DeletableTopicResult:
    code = error.code
    if code is ErrorCode.TOPIC_DELETION_DISABLED and context.version < TOPIC_DELETION_DISABLED_FROM:
        code = ErrorCode.INVALID_REQUEST
    return DeletableTopicResult(name=asked.name, topic_id=asked.topic_id, error_code=code, error_message=error.message)
