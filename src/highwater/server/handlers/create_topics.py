"""CreateTopics (key 19), versions 2-7: make topics.

v4  -1 for the number of partitions or replicas leaves it to the broker; we take it in every version
v5  the settings of the new topic in the answer
v7  its id as well
A topic is served before the answer leaves. `validate_only` answers as if, and makes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.broker.topic_rules import NewTopic
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import NO_TOPIC_ID
from highwater.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from highwater.security.authorizer import Operation, ResourceType
from highwater.server.named_once import NamedOnce

if TYPE_CHECKING:
    from highwater.broker.topics import Topic
    from highwater.server.request_context import RequestContext


async def handle(context: RequestContext, request: CreateTopicsRequest) -> CreateTopicsResponse:
    """Make the topics one after another; one that cannot be made does not keep the others from it."""
    once = NamedOnce(asked.name for asked in request.topics)
    unique = {asked.name: asked for asked in request.topics}
    response = CreateTopicsResponse()
    for asked in unique.values():
        try:
            once.check(asked.name)
            result = await _make(context, asked, validate_only=request.validate_only)
        except KafkaError as error:
            result = CreatableTopicResult(name=asked.name, error_code=error.code, error_message=error.message)
        response.topics.append(result)
    return response


async def _make(context: RequestContext, asked: CreatableTopic, *, validate_only: bool) -> CreatableTopicResult:
    if not context.authorize(Operation.CREATE, ResourceType.CLUSTER):
        context.require(Operation.CREATE, ResourceType.TOPIC, asked.name)
    topic = await context.broker.topic_admin.create(_wanted(asked), validate_only=validate_only)
    if not context.authorize(Operation.DESCRIBE_CONFIGS, ResourceType.TOPIC, asked.name):
        return CreatableTopicResult(
            name=asked.name,
            topic_id=NO_TOPIC_ID if validate_only else topic.id,
            topic_config_error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            configs=None,
        )
    return CreatableTopicResult(
        name=asked.name,
        topic_id=NO_TOPIC_ID if validate_only else topic.id,
        num_partitions=len(topic.partitions),
        replication_factor=len(topic.partitions[0].replicas),
        configs=_configs(topic),
    )


def _wanted(asked: CreatableTopic) -> NewTopic:
    NamedOnce(config.name for config in asked.configs).check_all()
    if len({assigned.partition_index for assigned in asked.assignments}) < len(asked.assignments):
        raise KafkaError("the request assigns a partition twice", code=ErrorCode.INVALID_REPLICA_ASSIGNMENT)
    return NewTopic(
        asked.name,
        partition_count=asked.num_partitions,
        replication_factor=asked.replication_factor,
        assignments={assigned.partition_index: assigned.broker_ids for assigned in asked.assignments},
        configs={config.name: config.value for config in asked.configs},
    )


def _configs(topic: Topic) -> list[CreatableTopicConfigs]:
    return [
        CreatableTopicConfigs(
            name=entry.name,
            value=entry.value,
            read_only=entry.is_read_only,
            config_source=entry.source,
            is_sensitive=entry.is_sensitive,
        )
        for entry in topic.settings.describe()
    ]
