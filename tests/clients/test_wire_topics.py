"""The topic APIs on the wire, in every version: what clients do not show of them."""

import pytest

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from highwater.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from highwater.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from highwater.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from highwater.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from highwater.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from highwater.testing.waiting import wait_until
from highwater.testing.wire import WireClient

NO_ID = bytes(16)
DEFAULT_CONFIG_SOURCE = 5
TOPIC_CONFIG_SOURCE = 1
LIVE = -7
"""Stands for the one broker there is."""


def create(wire: WireClient, *topics: CreatableTopic, version: int = 7, validate_only: bool = False) -> dict[str, int]:
    request = CreateTopicsRequest(topics=list(topics), timeout_ms=10_000, validate_only=validate_only)
    answer = wire.call(request, CreateTopicsResponse, version)
    return {topic.name: topic.error_code for topic in answer.topics}


def partition_count(wire: WireClient, name: str) -> int:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)
    return len(wire.call(request, MetadataResponse, 12).topics[0].partitions)


def wanted(name: str, partitions: int = 1, **configs: str) -> CreatableTopic:
    settings = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=settings)


@pytest.mark.parametrize("version", range(2, 8))
def test_every_version_makes_a_topic(wire: WireClient, topic_name: str, version: int) -> None:
    assert create(wire, wanted(topic_name, 2), version=version) == {topic_name: ErrorCode.NONE}
    wait_until(lambda: partition_count(wire, topic_name) == 2, "the topic is known")
    assert create(wire, wanted(topic_name), version=version) == {topic_name: ErrorCode.TOPIC_ALREADY_EXISTS}


def test_the_answer_tells_the_new_topics_id_size_and_settings(wire: WireClient, topic_name: str) -> None:
    request = CreateTopicsRequest(topics=[wanted(topic_name, 3, retention_ms="5000")], timeout_ms=10_000)
    (made,) = wire.call(request, CreateTopicsResponse, 7).topics
    assert made.topic_id != NO_ID
    assert (made.num_partitions, made.replication_factor) == (3, 1)
    settings = {config.name: config for config in made.configs or ()}
    assert (settings["retention.ms"].value, settings["retention.ms"].config_source) == ("5000", TOPIC_CONFIG_SOURCE)
    assert settings["cleanup.policy"].config_source == DEFAULT_CONFIG_SOURCE


def test_a_name_given_twice_is_refused_and_the_others_are_made(wire: WireClient, topic_name: str) -> None:
    twice, once = f"{topic_name}-twice", f"{topic_name}-once"
    assert create(wire, wanted(twice), wanted(once), wanted(twice)) == {
        twice: ErrorCode.INVALID_REQUEST,
        once: ErrorCode.NONE,
    }


def test_validate_only_makes_nothing(wire: WireClient, topic_name: str) -> None:
    assert create(wire, wanted(topic_name, 2), validate_only=True) == {topic_name: ErrorCode.NONE}
    assert create(wire, wanted("no/good"), validate_only=True) == {"no/good": ErrorCode.INVALID_TOPIC_EXCEPTION}
    assert partition_count(wire, topic_name) == 0


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"num_partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ({"num_partitions": -2}, ErrorCode.INVALID_PARTITIONS),
        ({"replication_factor": 0}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 32767}, ErrorCode.INVALID_REPLICATION_FACTOR),
        ({"name": ""}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "."}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"name": "a" * 250}, ErrorCode.INVALID_TOPIC_EXCEPTION),
        ({"configs": [CreatableTopicConfig(name="no.such.setting", value="1")]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [CreatableTopicConfig(name="retention.ms", value="soon")]}, ErrorCode.INVALID_CONFIG),
        ({"configs": [CreatableTopicConfig(name="retention.ms", value=None)]}, ErrorCode.INVALID_CONFIG),
    ],
)
def test_what_cannot_be_made_is_refused(
    wire: WireClient, topic_name: str, changes: dict[str, object], code: ErrorCode
) -> None:
    topic = wanted(topic_name)
    for field, value in changes.items():
        setattr(topic, field, value)
    request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
    (refused,) = wire.call(request, CreateTopicsResponse, 7).topics
    assert refused.error_code == code
    assert refused.error_message


@pytest.mark.parametrize(
    ("assignments", "code"),
    [
        ({0: [LIVE], 1: [LIVE]}, ErrorCode.NONE),
        ({1: [LIVE]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: []}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: [99_999]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        ({0: [LIVE, LIVE]}, ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_the_caller_may_choose_the_brokers(
    wire: WireClient, topic_name: str, assignments: dict[int, list[int]], code: ErrorCode
) -> None:
    (live,) = wire.call(DescribeClusterRequest(), DescribeClusterResponse, 1).brokers
    topic = CreatableTopic(name=topic_name, num_partitions=-1, replication_factor=-1)
    for index, brokers in assignments.items():
        chosen = [live.broker_id if broker == LIVE else broker for broker in brokers]
        topic.assignments.append(CreatableReplicaAssignment(partition_index=index, broker_ids=chosen))
    assert create(wire, topic) == {topic_name: code}


def test_chosen_brokers_and_counts_exclude_each_other(wire: WireClient, topic_name: str) -> None:
    topic = wanted(topic_name)
    topic.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[0])]
    assert create(wire, topic) == {topic_name: ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize("version", range(1, 7))
def test_every_version_deletes_a_topic(wire: WireClient, topic: str, version: int) -> None:
    request = DeleteTopicsRequest(timeout_ms=10_000)
    if version < 6:
        request.topic_names = [topic, "not-there"]
    else:
        request.topics = [DeleteTopicState(name=topic), DeleteTopicState(name="not-there")]
    answer = wire.call(request, DeleteTopicsResponse, version)
    codes = {result.name: result.error_code for result in answer.responses}
    assert codes == {topic: ErrorCode.NONE, "not-there": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    wait_until(lambda: partition_count(wire, topic) == 0, "the topic is gone")


def test_a_topic_is_deleted_by_its_id(wire: WireClient, topic: str) -> None:
    described = wire.call(
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic)]), DescribeTopicPartitionsResponse, 0
    )
    topic_id = described.topics[0].topic_id
    request = DeleteTopicsRequest(
        topics=[DeleteTopicState(topic_id=topic_id), DeleteTopicState(topic_id=b"\x01" * 16)], timeout_ms=10_000
    )
    answer = wire.call(request, DeleteTopicsResponse, 6)
    by_id = {result.topic_id: (result.name, result.error_code) for result in answer.responses}
    assert by_id == {topic_id: (topic, ErrorCode.NONE), b"\x01" * 16: (None, ErrorCode.UNKNOWN_TOPIC_ID)}


def test_a_topic_named_twice_is_not_deleted(wire: WireClient, topic: str) -> None:
    request = DeleteTopicsRequest(topic_names=[topic, topic], timeout_ms=10_000)
    answer = wire.call(request, DeleteTopicsResponse, 5)
    assert {result.error_code for result in answer.responses} == {ErrorCode.INVALID_REQUEST}
    assert partition_count(wire, topic) == 1


@pytest.mark.parametrize("version", range(4))
def test_every_version_adds_partitions_and_names_each_topic(wire: WireClient, topic: str, version: int) -> None:
    request = CreatePartitionsRequest(
        topics=[
            CreatePartitionsTopic(name=topic, count=3, assignments=None),
            CreatePartitionsTopic(name="not-there", count=3, assignments=None),
        ],
        timeout_ms=10_000,
    )
    answer = wire.call(request, CreatePartitionsResponse, version)
    codes = {result.name: result.error_code for result in answer.results}
    assert codes == {topic: ErrorCode.NONE, "not-there": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    wait_until(lambda: partition_count(wire, topic) == 3, "all partitions are known")


@pytest.mark.parametrize(
    ("count", "assigned", "code"),
    [
        (1, None, ErrorCode.INVALID_PARTITIONS),
        (0, None, ErrorCode.INVALID_PARTITIONS),
        (-1, None, ErrorCode.INVALID_PARTITIONS),
        (3, [[99_999], [99_999]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (3, [[99_999]], ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_partitions_that_cannot_be_added(
    wire: WireClient, topic: str, count: int, assigned: list[list[int]] | None, code: ErrorCode
) -> None:
    assignments = None if assigned is None else [CreatePartitionsAssignment(broker_ids=brokers) for brokers in assigned]
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=topic, count=count, assignments=assignments)], timeout_ms=10_000
    )
    (refused,) = wire.call(request, CreatePartitionsResponse, 3).results
    assert refused.error_code == code
    assert refused.error_message
    assert partition_count(wire, topic) == 1


def test_a_dry_run_adds_no_partitions(wire: WireClient, topic: str) -> None:
    request = CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=topic, count=9, assignments=None)], timeout_ms=10_000, validate_only=True
    )
    assert wire.call(request, CreatePartitionsResponse, 3).results[0].error_code == ErrorCode.NONE
    assert partition_count(wire, topic) == 1


def pages(wire: WireClient, names: list[str], limit: int) -> list[list[tuple[str | None, int]]]:
    """Read page after page until there is no cursor; each page as (topic, partition) pairs."""
    cursor: Cursor | None = None
    read: list[list[tuple[str | None, int]]] = []
    while True:
        request = DescribeTopicPartitionsRequest(
            topics=[TopicRequest(name=name) for name in names], response_partition_limit=limit, cursor=cursor
        )
        answer = wire.call(request, DescribeTopicPartitionsResponse, 0)
        assert all(topic.error_code == ErrorCode.NONE for topic in answer.topics)
        read.append([(topic.name, part.partition_index) for topic in answer.topics for part in topic.partitions])
        cursor = answer.next_cursor
        if cursor is None:
            return read


@pytest.mark.parametrize("limit", [1, 2, 3, 5, 100])
def test_partitions_come_in_pages_that_leave_nothing_out(wire: WireClient, topic_name: str, limit: int) -> None:
    names = [f"{topic_name}-{letter}" for letter in "ab"]
    create(wire, *(wanted(name, 3) for name in names))
    wait_until(lambda: all(partition_count(wire, name) == 3 for name in names), "both topics are known")
    read = pages(wire, list(reversed(names)), limit)
    assert [pair for page in read for pair in page] == [(name, index) for name in names for index in range(3)]
    assert all(len(page) <= limit for page in read)


def test_describing_a_topic_that_is_not_there(wire: WireClient, topic: str) -> None:
    request = DescribeTopicPartitionsRequest(topics=[TopicRequest(name=f"{topic}-not"), TopicRequest(name=topic)])
    answer = wire.call(request, DescribeTopicPartitionsResponse, 0)
    assert {found.name: found.error_code for found in answer.topics} == {
        topic: ErrorCode.NONE,
        f"{topic}-not": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


@pytest.mark.parametrize("version", range(3))
def test_every_version_describes_the_cluster(wire: WireClient, bootstrap: str, version: int) -> None:
    answer = wire.call(
        DescribeClusterRequest(include_cluster_authorized_operations=True), DescribeClusterResponse, version
    )
    assert answer.error_code == ErrorCode.NONE
    assert len(answer.cluster_id) == 22
    assert answer.controller_id in {broker.broker_id for broker in answer.brokers}
    assert bootstrap.endswith(f":{answer.brokers[0].port}")
    assert answer.cluster_authorized_operations > 0


def test_a_broker_does_not_answer_for_controllers(wire: WireClient) -> None:
    answer = wire.call(DescribeClusterRequest(endpoint_type=2), DescribeClusterResponse, 1)
    assert answer.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE
    assert answer.error_message
