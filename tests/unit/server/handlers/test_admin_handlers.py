"""What the admin APIs answer to callers who may not, and in the corners that real clients do not reach."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import SimpleNamespace
from typing import Any, TypeAlias, cast

import pytest

from highwater.broker.partitions import Partitions
from highwater.broker.producer_ids import ProducerIds
from highwater.broker.topic_rules import NewTopic
from highwater.model.errors import ErrorCode
from highwater.model.ids import BrokerId, TopicPartition
from highwater.protocol.messages import alter_configs as replacing
from highwater.protocol.messages import incremental_alter_configs as editing
from highwater.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from highwater.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from highwater.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from highwater.protocol.messages.describe_cluster import DescribeClusterRequest
from highwater.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from highwater.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from highwater.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from highwater.protocol.messages.init_producer_id import InitProducerIdRequest
from highwater.protocol.messages.list_config_resources import ListConfigResourcesRequest
from highwater.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from highwater.security.authorizer import ANONYMOUS, Operation, Principal, ResourceType
from highwater.server.handlers import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_configs,
    describe_log_dirs,
    describe_topic_partitions,
    incremental_alter_configs,
    init_producer_id,
    list_config_resources,
    metadata,
)
from highwater.server.request_context import RequestContext

StartAdmin: TypeAlias = Callable[..., AbstractAsyncContextManager[Any]]

TOPIC, BROKER = 2, 4


class Forbids:
    """Allows everything but the operations it is given, on every resource."""

    def __init__(self, *operations: Operation) -> None:
        self._operations = operations

    def allows(self, principal: Principal, operation: Operation, resource: ResourceType, name: str) -> bool:
        del principal, resource, name
        return operation not in self._operations


def context_for(admin: Any, version: int, *forbidden: Operation) -> RequestContext:
    broker = SimpleNamespace(
        id=BrokerId(0),
        loop=SimpleNamespace(time=lambda: 0.0),
        authorizer=Forbids(*forbidden),
        config=admin.config,
        cluster=admin.cluster,
        topics=admin.topics,
        topic_admin=admin.topic_admin,
        config_admin=admin.config_admin,
        producer_ids=ProducerIds(admin.store, BrokerId(0)),
        partitions=Partitions(),
        recompression=None,
        now_ms=lambda: 0,
    )
    return RequestContext(
        broker=cast("Any", broker),
        principal=ANONYMOUS,
        version=version,
        client_id="test",
        client_host="127.0.0.1",
        listener_name="PLAINTEXT",
    )


def asked_by_name(*names: str, create: bool = True) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=create)


async def answered(result: Any) -> Any:
    return result if isinstance(result, MetadataResponse) else await result


async def test_metadata_hides_what_the_caller_may_not_see(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        await admin.topic_admin.create(NewTopic("orders"))
        context = context_for(admin, 12, Operation.DESCRIBE)
        everything = await answered(metadata.handle(context, MetadataRequest(topics=None)))
        assert everything.topics == []
        named = await answered(metadata.handle(context, asked_by_name("orders", "new")))
        assert [topic.error_code for topic in named.topics] == [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 2
        by_id = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=admin.topics.get("orders").id)])
        (hidden,) = (await answered(metadata.handle(context, by_id))).topics
        assert (hidden.error_code, hidden.name) == (ErrorCode.UNKNOWN_TOPIC_ID, None)


async def test_metadata_makes_nothing_for_who_may_not_create(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        answer = await answered(metadata.handle(context_for(admin, 12, Operation.CREATE), asked_by_name("new")))
        assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert len(admin.topics) == 0


async def test_metadata_makes_nothing_when_the_broker_does_not_want_it(start_admin: StartAdmin) -> None:
    async with start_admin(auto_create_topics_enable="false") as admin:
        answer = await answered(metadata.handle(context_for(admin, 12), asked_by_name("new")))
        assert answer.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_metadata_says_why_a_topic_could_not_be_made(start_admin: StartAdmin) -> None:
    async with start_admin(default_replication_factor="3") as admin:
        answer = await answered(metadata.handle(context_for(admin, 12), asked_by_name("new", "no/good")))
        assert [(topic.name, topic.error_code) for topic in answer.topics] == [
            ("new", ErrorCode.INVALID_REPLICATION_FACTOR),
            ("no/good", ErrorCode.INVALID_TOPIC_EXCEPTION),
        ]


async def test_metadata_makes_internal_topics_with_all_their_partitions(start_admin: StartAdmin) -> None:
    async with start_admin(offsets_topic_num_partitions="7") as admin:
        answer = await answered(metadata.handle(context_for(admin, 12), asked_by_name("__consumer_offsets")))
        (topic,) = answer.topics
        assert (topic.error_code, topic.is_internal, len(topic.partitions)) == (ErrorCode.NONE, True, 7)


async def test_metadata_by_id_needs_a_version_that_has_it(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        topic = await admin.topic_admin.create(NewTopic("orders"))
        request = MetadataRequest(topics=[MetadataRequestTopic(name=None, topic_id=topic.id)])
        (refused,) = (await answered(metadata.handle(context_for(admin, 11), request))).topics
        assert refused.error_code == ErrorCode.INVALID_REQUEST


async def test_metadata_tells_the_operations_that_the_caller_may_do(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        await admin.topic_admin.create(NewTopic("orders"))
        request = asked_by_name("orders")
        request.include_topic_authorized_operations = True
        request.include_cluster_authorized_operations = True
        answer = await answered(metadata.handle(context_for(admin, 8, Operation.WRITE), request))
        bits = answer.topics[0].topic_authorized_operations
        assert bits & 1 << Operation.READ
        assert not bits & 1 << Operation.WRITE
        assert not bits & 1 << Operation.CLUSTER_ACTION
        assert answer.cluster_authorized_operations & 1 << Operation.CLUSTER_ACTION


async def test_a_partition_whose_disk_failed_has_no_leader(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        await admin.topic_admin.create(NewTopic("orders", 2))
        context = context_for(admin, 12)
        context.broker.partitions.take_offline(TopicPartition("orders", 1), "the disk is gone")
        (topic,) = (await answered(metadata.handle(context, asked_by_name("orders")))).topics
        seen = [(part.error_code, part.leader_id, part.offline_replicas) for part in topic.partitions]
        assert seen == [(ErrorCode.NONE, 0, []), (ErrorCode.LEADER_NOT_AVAILABLE, -1, [0])]


async def test_who_may_not_create_topics_is_told(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        request = CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1)])
        (refused,) = (await create_topics.handle(context_for(admin, 7, Operation.CREATE), request)).topics
        assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert "User:ANONYMOUS" in (refused.error_message or "")


async def test_who_may_not_see_settings_gets_a_topic_without_them(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        request = CreateTopicsRequest(topics=[CreatableTopic(name="a", num_partitions=1, replication_factor=1)])
        (made,) = (await create_topics.handle(context_for(admin, 7, Operation.DESCRIBE_CONFIGS), request)).topics
        assert (made.error_code, made.topic_config_error_code, made.configs) == (
            ErrorCode.NONE,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            None,
        )


async def test_who_may_not_delete_learns_nothing_from_an_id(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        topic = await admin.topic_admin.create(NewTopic("orders"))
        by_id = DeleteTopicsRequest(topics=[DeleteTopicState(topic_id=topic.id)])
        for forbidden, code in (
            (Operation.DESCRIBE, ErrorCode.UNKNOWN_TOPIC_ID),
            (Operation.DELETE, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        ):
            (refused,) = (await delete_topics.handle(context_for(admin, 6, forbidden), by_id)).responses
            assert (refused.error_code, refused.name) == (code, None)
        assert len(admin.topics) == 1


async def test_a_topic_is_deleted_by_its_name_or_its_id_not_both(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        topic = await admin.topic_admin.create(NewTopic("orders"))
        both = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders", topic_id=topic.id)])
        (refused,) = (await delete_topics.handle(context_for(admin, 6), both)).responses
        assert refused.error_code == ErrorCode.INVALID_REQUEST
        twice = DeleteTopicsRequest(topics=[DeleteTopicState(name="orders"), DeleteTopicState(topic_id=topic.id)])
        answer = await delete_topics.handle(context_for(admin, 6), twice)
        assert [result.error_code for result in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2


@pytest.mark.parametrize(("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)])
async def test_deletion_switched_off_is_said_in_words_of_the_version(
    start_admin: StartAdmin, version: int, code: ErrorCode
) -> None:
    async with start_admin(delete_topic_enable="false") as admin:
        await admin.topic_admin.create(NewTopic("orders"))
        request = DeleteTopicsRequest(topic_names=["orders"])
        (refused,) = (await delete_topics.handle(context_for(admin, version), request)).responses
        assert refused.error_code == code


async def test_who_may_not_alter_cannot_grow_a_topic(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        await admin.topic_admin.create(NewTopic("orders"))
        request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="orders", count=2, assignments=None)])
        (refused,) = (await create_partitions.handle(context_for(admin, 3, Operation.ALTER), request)).results
        assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        request.topics *= 2
        (refused,) = (await create_partitions.handle(context_for(admin, 3), request)).results
        assert refused.error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "orders", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
        (BROKER, "0", ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        (77, "", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_settings_are_kept_from_who_may_not(
    start_admin: StartAdmin, kind: int, name: str, code: ErrorCode
) -> None:
    async with start_admin() as admin:
        await admin.topic_admin.create(NewTopic("orders"))
        describe = DescribeConfigsRequest(
            resources=[DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)]
        )
        seen = describe_configs.handle(context_for(admin, 4, Operation.DESCRIBE_CONFIGS), describe)
        assert (seen.results[0].error_code, seen.results[0].configs) == (code, [])
        context = context_for(admin, 1, Operation.ALTER_CONFIGS)
        replace = replacing.AlterConfigsRequest(
            resources=[replacing.AlterConfigsResource(resource_type=kind, resource_name=name)]
        )
        assert (await alter_configs.handle(context, replace)).responses[0].error_code == code
        edit = editing.IncrementalAlterConfigsRequest(
            resources=[editing.AlterConfigsResource(resource_type=kind, resource_name=name)]
        )
        assert (await incremental_alter_configs.handle(context, edit)).responses[0].error_code == code


async def test_an_unknown_kind_of_edit_is_refused(start_admin: StartAdmin) -> None:
    """Apache Kafka answers UNKNOWN_SERVER_ERROR, which tells the caller less."""
    async with start_admin() as admin:
        await admin.topic_admin.create(NewTopic("orders"))
        step = editing.AlterableConfig(name="retention.ms", config_operation=9, value="1")
        request = editing.IncrementalAlterConfigsRequest(
            resources=[editing.AlterConfigsResource(resource_type=TOPIC, resource_name="orders", configs=[step])]
        )
        (refused,) = (await incremental_alter_configs.handle(context_for(admin, 1), request)).responses
        assert (refused.error_code, refused.error_message) == (
            ErrorCode.INVALID_REQUEST,
            "there is no config operation 9",
        )


async def test_a_resource_changed_twice_in_one_request_is_refused(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        await admin.topic_admin.create(NewTopic("orders"))
        resource = replacing.AlterConfigsResource(resource_type=TOPIC, resource_name="orders")
        request = replacing.AlterConfigsRequest(resources=[resource, resource])
        answer = await alter_configs.handle(context_for(admin, 2), request)
        assert [result.error_code for result in answer.responses] == [ErrorCode.INVALID_REQUEST] * 2


async def test_sensitive_settings_are_shown_to_nobody(start_admin: StartAdmin) -> None:
    async with start_admin(ssl_key_password="hunter2") as admin:
        request = DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(
                    resource_type=BROKER, resource_name="0", configuration_keys=["ssl.key.password"]
                )
            ],
            include_synonyms=True,
        )
        answer = describe_configs.handle(context_for(admin, 4), request)
        (config,) = answer.results[0].configs
        assert (config.value, config.is_sensitive) == (None, True)
        assert "hunter2" not in repr(answer)


async def test_the_cluster_lists_and_log_dirs_have_their_guards(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        listed = list_config_resources.handle(
            context_for(admin, 1, Operation.DESCRIBE_CONFIGS), ListConfigResourcesRequest()
        )
        assert (listed.error_code, listed.config_resources) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])
        dirs = describe_log_dirs.handle(context_for(admin, 4, Operation.DESCRIBE), DescribeLogDirsRequest())
        assert (dirs.error_code, dirs.results) == (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, [])


async def test_an_endpoint_type_that_is_none(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        answer = await describe_cluster.handle(context_for(admin, 1), DescribeClusterRequest(endpoint_type=9))
        assert answer.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


@pytest.mark.parametrize(
    ("transactional_id", "forbidden", "code"),
    [
        (None, Operation.IDEMPOTENT_WRITE, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        ("mine", Operation.WRITE, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED),
    ],
)
async def test_producer_ids_that_are_not_given_out(
    start_admin: StartAdmin, transactional_id: str | None, forbidden: Operation, code: ErrorCode
) -> None:
    async with start_admin() as admin:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=1000)
        answer = await init_producer_id.handle(context_for(admin, 5, forbidden), request)
        assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)


async def test_a_cursor_at_a_topic_that_has_gone_goes_on_with_the_next(start_admin: StartAdmin) -> None:
    """Apache Kafka starts the next topic at the old one's partition, and leaves the first ones out."""
    async with start_admin() as admin:
        await admin.topic_admin.create(NewTopic("orders", 2))
        request = DescribeTopicPartitionsRequest(cursor=Cursor(topic_name="gone", partition_index=1))
        answer = describe_topic_partitions.handle(context_for(admin, 0), request)
        assert [(topic.name, len(topic.partitions)) for topic in answer.topics] == [("orders", 2)]


async def test_pages_are_bounded_by_the_broker_too(start_admin: StartAdmin) -> None:
    async with start_admin(max_request_partition_size_limit="3") as admin:
        await admin.topic_admin.create(NewTopic("orders", 5))
        for limit in (2_000, -5):
            request = DescribeTopicPartitionsRequest(response_partition_limit=limit)
            answer = describe_topic_partitions.handle(context_for(admin, 0), request)
            expected = 3 if limit > 0 else 1
            assert len(answer.topics[0].partitions) == expected
            assert answer.next_cursor == Cursor(topic_name="orders", partition_index=expected)


async def test_topics_that_may_not_be_seen_are_refused_by_name_and_left_out_of_all(start_admin: StartAdmin) -> None:
    async with start_admin() as admin:
        await admin.topic_admin.create(NewTopic("orders"))
        context = context_for(admin, 0, Operation.DESCRIBE)
        assert describe_topic_partitions.handle(context, DescribeTopicPartitionsRequest()).topics == []
        named = DescribeTopicPartitionsRequest(topics=[TopicRequest(name="orders")])
        (refused,) = describe_topic_partitions.handle(context, named).topics
        assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
