"""Consumer groups on the wire: how partitions move, and what is refused (KIP-848)."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
)
from highwater.protocol.messages.consumer_group_heartbeat import (
    TopicPartitions,
)
from highwater.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from highwater.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from highwater.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from highwater.testing.group_requests import coordinator_of
from highwater.testing.wire_consumer_group import WireConsumerGroup as Group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def group(bootstrap: str) -> Iterator[Group]:
    name = f"group-{uuid.uuid4().hex[:8]}"
    with coordinator_of(name, [bootstrap]) as wire:
        yield Group(wire, name)


def test_the_first_member_gets_everything(group: Group, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=6)
    assert group.join("ana", topic).error_code == ErrorCode.NONE
    group.settle({"ana": 6})
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    known = group.wire.call(asked, MetadataResponse, 12).topics[0].topic_id
    assert {topic_id: sorted(partitions) for topic_id, partitions in group.assigned["ana"].items()} == {
        known: [0, 1, 2, 3, 4, 5]
    }


def test_a_partition_moves_only_after_its_owner_has_given_it_up(group: Group, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=6)
    group.join("ana", topic)
    group.settle({"ana": 6})
    owned = [TopicPartitions(topic_id=each, partitions=list(range(6))) for each in group.assigned["ana"]]
    group.join("ben", topic)
    assert group.share("ben") == 0
    for _ in range(3):
        group.report("ana", topic_partitions=owned)
        group.beat("ben")
        assert group.share("ben") == 0, "ana still reports all six"
    assert group.share("ana") == 3
    group.settle({"ana": 3, "ben": 3})
    taken = [sorted(partitions) for name in ("ana", "ben") for partitions in group.assigned[name].values()]
    assert sorted(taken[0] + taken[1]) == [0, 1, 2, 3, 4, 5]


def test_a_member_that_leaves_frees_its_partitions_at_once(group: Group, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=4)
    group.join("ana", topic)
    group.join("ben", topic)
    group.settle({"ana": 2, "ben": 2})
    left = group.report("ben", epoch=-1)
    assert (left.error_code, left.member_epoch) == (ErrorCode.NONE, -1)
    group.settle({"ana": 4})


def test_epochs_fence(group: Group, topic: str) -> None:
    group.join("ana", topic)
    group.settle({"ana": 1})
    assert group.report("ana", epoch=99).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert group.report("nobody", epoch=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_returns_gets_its_partitions_back(group: Group, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=4)
    group.join("ana", topic)
    group.join("ben", topic, instance_id="seat")
    group.settle({"ana": 2, "ben": 2})
    had = group.assigned["ben"]
    assert group.join("twin", topic, instance_id="seat").error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    away = group.report("ben", epoch=-2, instance_id="seat")
    assert (away.error_code, away.member_epoch) == (ErrorCode.NONE, -2)
    group.beat("ana")
    assert group.share("ana") == 2
    assert group.join("ben-again", topic, instance_id="seat").error_code == ErrorCode.NONE
    assert group.assigned["ben-again"] == had


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"server_assignor": "magic"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"subscribed_topic_regex": "("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_makes_no_sense_is_refused(group: Group, topic: str, fields: dict[str, Any], expected: ErrorCode) -> None:
    assert group.join("ana", topic, **fields).error_code == expected


def test_ranges_can_be_asked_for(group: Group, new_topic: Callable[..., str]) -> None:
    topic = new_topic(partitions=10)
    for name in ("ana", "ben", "cem"):
        group.join(name, topic, server_assignor="range")
    group.settle({"ana": 4, "ben": 3, "cem": 3})


def test_a_pattern_subscribes_to_every_topic_that_matches_as_a_whole(
    group: Group, new_topic: Callable[..., str]
) -> None:
    first, second = new_topic(partitions=1), new_topic(partitions=2)
    stem = first.removesuffix("-1")
    assert second.startswith(stem)
    joined = group.report(
        "ana",
        epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_regex=f"{stem}-[12]",
        topic_partitions=[],
    )
    assert joined.error_code == ErrorCode.NONE
    group.settle({"ana": 3})
    part_of_a_name = group.report("ana", subscribed_topic_regex=stem[:-1])
    assert part_of_a_name.error_code == ErrorCode.NONE
    group.settle({"ana": 0})


def test_commits_and_fetches_carry_the_members_epoch(group: Group, topic: str) -> None:
    group.join("ana", topic)
    group.settle({"ana": 1})

    def commit(epoch: int) -> int:
        asked = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        request = OffsetCommitRequest(
            group_id=group.id,
            member_id=group.member_id("ana"),
            generation_id_or_member_epoch=epoch,
            topics=[OffsetCommitRequestTopic(name=topic, partitions=[asked])],
        )
        return group.wire.call(request, OffsetCommitResponse, 9).topics[0].partitions[0].error_code

    def fetch(epoch: int) -> int:
        asked = OffsetFetchRequestGroup(
            group_id=group.id,
            member_id=group.member_id("ana"),
            member_epoch=epoch,
            topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])],
        )
        return group.wire.call(OffsetFetchRequest(groups=[asked]), OffsetFetchResponse, 9).groups[0].error_code

    current = group.epochs["ana"]
    assert [commit(current), fetch(current)] == [ErrorCode.NONE, ErrorCode.NONE]
    assert [commit(current - 1), fetch(current - 1)] == [ErrorCode.STALE_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH]


def test_a_group_is_described_with_what_its_members_have_and_should_have(
    group: Group, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(partitions=2)
    group.join("ana", topic)
    group.settle({"ana": 2})
    asked = ConsumerGroupDescribeRequest(group_ids=[group.id, "nobody's"])
    answers = {each.group_id: each for each in group.wire.call(asked, ConsumerGroupDescribeResponse, 1).groups}
    assert answers["nobody's"].error_code == ErrorCode.GROUP_ID_NOT_FOUND
    described = answers[group.id]
    assert (described.group_state, described.assignor_name) == ("Stable", "uniform")
    assert described.group_epoch == described.assignment_epoch
    (member,) = described.members
    assert (member.member_id, member.subscribed_topic_names, member.member_type) == (
        group.member_id("ana"),
        [topic],
        1,
    )
    for assignment in (member.assignment, member.target_assignment):
        assert [(each.topic_name, sorted(each.partitions)) for each in assignment.topic_partitions] == [(topic, [0, 1])]
