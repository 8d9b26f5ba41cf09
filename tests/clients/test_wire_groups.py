"""Groups on the wire: every version of every request, five hundred members at once, and what is refused."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from highwater.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from highwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from highwater.protocol.messages.join_group import JoinGroupResponse
from highwater.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from highwater.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from highwater.protocol.messages.offset_commit import (
    OffsetCommitResponse,
)
from highwater.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from highwater.protocol.messages.sync_group import SyncGroupResponse
from highwater.testing.group_requests import (
    JOIN_LATEST,
    SYNC_LATEST,
    a_commit,
    a_join,
    a_sync,
    commit,
    coordinator_of,
    enter,
    heartbeat,
    sync_as_leader,
)
from highwater.testing.waiting import wait_until
from highwater.testing.wire import WireClient

if TYPE_CHECKING:
    from collections.abc import Iterator

    from highwater.testing.plugin import BrokerFactory


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def wire(bootstrap: str, group: str) -> Iterator[WireClient]:
    """A connection to the coordinator of the test's group."""
    with coordinator_of(group, [bootstrap]) as client:
        yield client


@pytest.mark.parametrize("version", range(7))
def test_every_version_finds_the_coordinator(wire: WireClient, group: str, version: int) -> None:
    answer = wire.call(
        FindCoordinatorRequest(key=group, coordinator_keys=[group, "another"]), FindCoordinatorResponse, version
    )
    if version < 4:
        assert (answer.error_code, answer.port > 0) == (ErrorCode.NONE, True)
    else:
        assert [found.key for found in answer.coordinators] == [group, "another"]
        assert all(found.error_code == ErrorCode.NONE for found in answer.coordinators)


@pytest.mark.parametrize("version", range(10))
def test_every_version_of_join_group_makes_a_member(wire: WireClient, group: str, version: int) -> None:
    member_id = ""
    if version >= 4:
        given = wire.call(a_join(group), JoinGroupResponse, version)
        assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED
        member_id = given.member_id
    joined = wire.call(a_join(group, member_id), JoinGroupResponse, version)
    assert (joined.error_code, joined.generation_id, joined.leader) == (ErrorCode.NONE, 1, joined.member_id)
    assert joined.protocol_name == "range"
    assert joined.protocol_type == ("consumer" if version >= 7 else None)
    assert [member.member_id for member in joined.members] == [joined.member_id]


@pytest.mark.parametrize("version", range(6))
def test_every_version_of_sync_heartbeat_and_leave_works(wire: WireClient, group: str, version: int) -> None:
    joined = enter(wire, group)
    request = a_sync(group, joined.member_id, 1, {joined.member_id: b"all"})
    assert wire.call(request, SyncGroupResponse, version).assignment == b"all"
    beat = HeartbeatRequest(group_id=group, generation_id=1, member_id=joined.member_id)
    assert wire.call(beat, HeartbeatResponse, min(version, 4)).error_code == ErrorCode.NONE
    leaving = LeaveGroupRequest(
        group_id=group, member_id=joined.member_id, members=[MemberIdentity(member_id=joined.member_id)]
    )
    left = wire.call(leaving, LeaveGroupResponse, version)
    assert left.error_code == ErrorCode.NONE
    assert all(member.error_code == ErrorCode.NONE for member in left.members)
    assert wire.call(beat, HeartbeatResponse, min(version, 4)).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("version", range(1, 10))
def test_every_version_of_offset_fetch_returns_what_was_committed(
    wire: WireClient, group: str, topic: str, version: int
) -> None:
    wire.call(a_commit(group, topic, 42, metadata="a note"), OffsetCommitResponse, max(version, 2))
    request = OffsetFetchRequest(
        group_id=group,
        topics=[OffsetFetchRequestTopic(name=topic, partition_indexes=[0, 7])],
        groups=[
            OffsetFetchRequestGroup(
                group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0, 7])]
            )
        ],
    )
    answer = wire.call(request, OffsetFetchResponse, version)
    topics: Any = answer.topics if version < 8 else answer.groups[0].topics
    first, second = topics[0].partitions
    assert (first.committed_offset, first.metadata, first.error_code) == (42, "a note", ErrorCode.NONE)
    assert (second.committed_offset, second.error_code) == (-1, ErrorCode.NONE)


def test_offsets_can_be_asked_for_all_at_once(wire: WireClient, group: str, topic: str) -> None:
    wire.call(a_commit(group, topic, 42), OffsetCommitResponse, 9)
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    (answer,) = wire.call(request, OffsetFetchResponse, 9).groups
    assert [(each.name, each.partitions[0].committed_offset) for each in answer.topics] == [(topic, 42)]


def test_what_cannot_be_committed_is_refused(wire: WireClient, group: str, topic: str) -> None:
    joined = enter(wire, group)
    member = {"member_id": joined.member_id, "generation_id_or_member_epoch": 1}
    assert commit(wire, a_commit(group, topic, 1, **member)) is ErrorCode.REBALANCE_IN_PROGRESS
    sync_as_leader(wire, group, joined)
    assert commit(wire, a_commit(group, topic, 1, **member)) is ErrorCode.NONE
    older = {**member, "generation_id_or_member_epoch": 0}
    assert commit(wire, a_commit(group, topic, 1, **older)) is ErrorCode.ILLEGAL_GENERATION
    stranger = {**member, "member_id": "stranger"}
    assert commit(wire, a_commit(group, topic, 1, **stranger)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert commit(wire, a_commit(group, topic, 1)) is ErrorCode.UNKNOWN_MEMBER_ID
    long = a_commit(group, topic, 1, metadata="x" * 4_097, **member)
    assert commit(wire, long) is ErrorCode.OFFSET_METADATA_TOO_LARGE
    nowhere = a_commit(group, "there-is-no-such-topic", 1, **member)
    assert commit(wire, nowhere) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_sync_must_name_its_protocol(wire: WireClient, group: str) -> None:
    """KIP-559: since version 5."""
    joined = enter(wire, group)
    request = a_sync(group, joined.member_id, 1, {})
    request.protocol_name = None
    answer = wire.call(request, SyncGroupResponse, SYNC_LATEST)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_session_timeouts_have_bounds(wire: WireClient, group: str) -> None:
    for session_timeout_ms in (1, 5_999, 1_800_001):
        answer = wire.call(a_join(group, session_timeout_ms=session_timeout_ms), JoinGroupResponse, JOIN_LATEST)
        assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_a_group_needs_a_name_to_be_joined(wire: WireClient) -> None:
    assert wire.call(a_join(""), JoinGroupResponse, JOIN_LATEST).error_code == ErrorCode.INVALID_GROUP_ID


def test_a_group_that_is_too_large_for_the_log_is_refused_and_recovers(wire: WireClient, group: str) -> None:
    """Subscriptions and assignments of all members must fit into one record."""
    joined = enter(wire, group)
    request = a_sync(group, joined.member_id, 1, {joined.member_id: bytes(2 << 20)})
    assert wire.call(request, SyncGroupResponse, SYNC_LATEST).error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    again = wire.call(a_join(group, joined.member_id), JoinGroupResponse, JOIN_LATEST)
    assert (again.error_code, again.generation_id) == (ErrorCode.NONE, 2)
    sync_as_leader(wire, group, again)


def test_a_member_with_too_much_to_say_is_refused_and_recovers(wire: WireClient, group: str) -> None:
    """A subscription travels with every generation and is written down with it, so it must fit into a record too."""
    joined = enter(wire, group, metadata=bytes(2 << 20))
    answer = wire.call(a_sync(group, joined.member_id, 1, {joined.member_id: b""}), SyncGroupResponse, SYNC_LATEST)
    assert answer.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    again = wire.call(a_join(group, joined.member_id), JoinGroupResponse, JOIN_LATEST)
    assert (again.error_code, again.generation_id) == (ErrorCode.NONE, 2)
    sync_as_leader(wire, group, again)


def test_the_others_go_on_when_the_leader_vanishes_between_join_and_sync(
    wire: WireClient, bootstrap: str, group: str
) -> None:
    """Its connection ends and it is never heard from again; after the rebalance timeout they are told to rejoin."""
    impatient: dict[str, Any] = {"rebalance_timeout_ms": 500}
    with WireClient(bootstrap) as vanishing:
        leader = enter(vanishing, group, **impatient)
        sync_as_leader(vanishing, group, leader)
        given = wire.call(a_join(group, **impatient), JoinGroupResponse, JOIN_LATEST)
        waiting = wire.send(a_join(group, given.member_id, **impatient), JOIN_LATEST)
        wait_until(partial(_must_rejoin, vanishing, group, leader), "the rebalance")
        leader = vanishing.call(a_join(group, leader.member_id, **impatient), JoinGroupResponse, JOIN_LATEST)
        assert leader.leader == leader.member_id
        left_behind = wire.receive(JoinGroupResponse, JOIN_LATEST, waiting)
    request = a_sync(group, left_behind.member_id, left_behind.generation_id, {})
    answer = wire.call(request, SyncGroupResponse, SYNC_LATEST)
    assert answer.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    alone = wire.call(a_join(group, left_behind.member_id, **impatient), JoinGroupResponse, JOIN_LATEST)
    assert (alone.error_code, alone.leader) == (ErrorCode.NONE, left_behind.member_id)
    assert [member.member_id for member in alone.members] == [left_behind.member_id]
    sync_as_leader(wire, group, alone)


def test_groups_are_described_and_listed_by_state(wire: WireClient, group: str) -> None:
    joined = enter(wire, group)
    sync_as_leader(wire, group, joined, b"the assignment")
    (described,) = wire.call(DescribeGroupsRequest(groups=[group]), DescribeGroupsResponse, 6).groups
    assert (described.group_state, described.protocol_type, described.protocol_data) == ("Stable", "consumer", "range")
    (member,) = described.members
    assert (member.client_id, member.client_host, member.member_assignment) == ("wire", "/127.0.0.1", b"the assignment")
    stable = wire.call(ListGroupsRequest(states_filter=["Stable"]), ListGroupsResponse, 5)
    assert group in {listed.group_id for listed in stable.groups}
    empty = wire.call(ListGroupsRequest(states_filter=["Empty"]), ListGroupsResponse, 5)
    assert group not in {listed.group_id for listed in empty.groups}
    classic = wire.call(ListGroupsRequest(types_filter=["classic"]), ListGroupsResponse, 5)
    assert group in {listed.group_id for listed in classic.groups}
    (missing,) = wire.call(DescribeGroupsRequest(groups=["nobody's"]), DescribeGroupsResponse, 6).groups
    assert missing.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    (older,) = wire.call(DescribeGroupsRequest(groups=["nobody's"]), DescribeGroupsResponse, 5).groups
    assert (older.error_code, older.group_state) == (ErrorCode.NONE, "Dead")


def test_five_hundred_members_join_at_once(start_broker: BrokerFactory, group: str) -> None:
    broker = start_broker(group_initial_rebalance_delay_ms=3_000)
    with ExitStack() as stack:
        members = [stack.enter_context(WireClient(broker.bootstrap_servers)) for _ in range(500)]
        coordinator_of(group, [broker.bootstrap_servers]).close()
        ids = [
            client.call(a_join(group, session_timeout_ms=120_000), JoinGroupResponse, JOIN_LATEST).member_id
            for client in members
        ]
        sent = [
            client.send(a_join(group, member_id, session_timeout_ms=120_000), JOIN_LATEST)
            for client, member_id in zip(members, ids, strict=True)
        ]
        joined = [
            client.receive(JoinGroupResponse, JOIN_LATEST, correlation_id)
            for client, correlation_id in zip(members, sent, strict=True)
        ]
        assert {answer.generation_id for answer in joined} == {1}
        (leader,) = (answer for answer in joined if answer.members)
        assert len(leader.members) == 500
        assignments = {member_id: member_id.encode() for member_id in ids}
        requests = [
            a_sync(group, member_id, 1, assignments if member_id == leader.member_id else {}) for member_id in ids
        ]
        sent = [client.send(request, SYNC_LATEST) for client, request in zip(members, requests, strict=True)]
        for client, correlation_id, member_id in zip(members, sent, ids, strict=True):
            assert client.receive(SyncGroupResponse, SYNC_LATEST, correlation_id).assignment == member_id.encode()
        leaving = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=member_id) for member_id in ids])
        assert all(not left.error_code for left in members[0].call(leaving, LeaveGroupResponse, 5).members)


def test_a_group_that_flaps_always_finds_together_again(wire: WireClient, bootstrap: str, group: str) -> None:
    """One member stays, another joins and leaves over and over."""
    steady = enter(wire, group)
    sync_as_leader(wire, group, steady)
    with WireClient(bootstrap) as restless:
        for _ in range(10):
            given = restless.call(a_join(group), JoinGroupResponse, JOIN_LATEST)
            waiting = restless.send(a_join(group, given.member_id), JOIN_LATEST)
            wait_until(partial(_must_rejoin, wire, group, steady), "the rebalance")
            steady = wire.call(a_join(group, steady.member_id), JoinGroupResponse, JOIN_LATEST)
            answer = restless.receive(JoinGroupResponse, JOIN_LATEST, waiting)
            assert answer.generation_id == steady.generation_id
            leaving = LeaveGroupRequest(group_id=group, members=[MemberIdentity(member_id=answer.member_id)])
            restless.call(leaving, LeaveGroupResponse, 5)
            steady = wire.call(a_join(group, steady.member_id), JoinGroupResponse, JOIN_LATEST)
            sync_as_leader(wire, group, steady)
    assert steady.generation_id == 21


def _must_rejoin(wire: WireClient, group: str, member: JoinGroupResponse) -> bool:
    return heartbeat(wire, group, member.member_id, member.generation_id) is ErrorCode.REBALANCE_IN_PROGRESS
