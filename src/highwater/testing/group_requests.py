"""Members of classic groups as bare connections: a test says when each request leaves, which no real client allows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from highwater.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from highwater.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from highwater.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from highwater.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
)
from highwater.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from highwater.testing.waiting import wait_until
from highwater.testing.wire import ConnectionClosed, WireClient

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

JOIN_LATEST: Final = 9
SYNC_LATEST: Final = 5
HEARTBEAT_LATEST: Final = 4
COMMIT_LATEST_BY_NAME: Final = 9
"""From 10 on, topics go by their ids."""


def coordinator_of(group: str, bootstraps: Sequence[str]) -> WireClient:
    """Connect to the broker that coordinates a group, once there is one and it has loaded the group."""
    found: list[WireClient] = []

    def is_there() -> bool:
        client = next(filter(None, (_try_coordinator(group, each) for each in bootstraps)), None)
        if client is not None:
            found.append(client)
        return client is not None

    wait_until(is_there, f"the coordinator of {group}")
    return found[0]


def _try_coordinator(group: str, bootstrap: str) -> WireClient | None:
    try:
        with WireClient(bootstrap) as asked:
            (named,) = asked.call(
                FindCoordinatorRequest(coordinator_keys=[group]), FindCoordinatorResponse, 6
            ).coordinators
        if named.error_code:
            return None
        client = WireClient(f"{named.host}:{named.port}")
    except (OSError, ConnectionClosed):
        return None
    try:
        if heartbeat(client, group, "nobody", -1) is ErrorCode.UNKNOWN_MEMBER_ID:
            return client
    except (OSError, ConnectionClosed):
        pass
    client.close()
    return None


def a_join(group: str, member_id: str = "", **fields: Any) -> JoinGroupRequest:
    """Return a JoinGroup of a consumer that offers `range`."""
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=fields.pop("session_timeout_ms", 30_000),
        rebalance_timeout_ms=fields.pop("rebalance_timeout_ms", 30_000),
        member_id=member_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=fields.pop("metadata", b""))],
        **fields,
    )


def a_sync(group: str, member_id: str, generation: int, assignments: Mapping[str, bytes]) -> SyncGroupRequest:
    """Return a SyncGroup; only a leader's assignments count."""
    return SyncGroupRequest(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=[
            SyncGroupRequestAssignment(member_id=each, assignment=assignment)
            for each, assignment in assignments.items()
        ],
    )


def a_commit(group: str, topic: str, offset: int, **fields: Any) -> OffsetCommitRequest:
    """Return a commit of one offset of partition 0; by nobody's member unless `fields` name one."""
    asked = OffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=fields.pop("metadata", "")
    )
    return OffsetCommitRequest(
        group_id=group, topics=[OffsetCommitRequestTopic(name=topic, partitions=[asked])], **fields
    )


def heartbeat(wire: WireClient, group: str, member_id: str, generation: int) -> ErrorCode:
    """Send a heartbeat and return what it is told."""
    beat = HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
    return ErrorCode(wire.call(beat, HeartbeatResponse, HEARTBEAT_LATEST).error_code)


def commit(wire: WireClient, request: OffsetCommitRequest) -> ErrorCode:
    """Send a commit and return what becomes of its one partition."""
    answer = wire.call(request, OffsetCommitResponse, COMMIT_LATEST_BY_NAME)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def committed(wire: WireClient, group: str) -> dict[tuple[str, int], int]:
    """Return every offset that a group has committed."""
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    (answer,) = wire.call(request, OffsetFetchResponse, COMMIT_LATEST_BY_NAME).groups
    assert answer.error_code == ErrorCode.NONE
    return {
        (topic.name, each.partition_index): each.committed_offset
        for topic in answer.topics
        for each in topic.partitions
    }


def enter(wire: WireClient, group: str, **fields: Any) -> JoinGroupResponse:
    """Join as clients do since KIP-394: with the id that the first answer gives."""
    given = wire.call(a_join(group, **fields), JoinGroupResponse, JOIN_LATEST)
    assert given.error_code == ErrorCode.MEMBER_ID_REQUIRED
    return rejoin(wire, group, given.member_id, **fields)


def rejoin(wire: WireClient, group: str, member_id: str, **fields: Any) -> JoinGroupResponse:
    """Join with an id; return the answer, which is not refused."""
    joined = wire.call(a_join(group, member_id, **fields), JoinGroupResponse, JOIN_LATEST)
    assert joined.error_code == ErrorCode.NONE
    return joined


def sync_as_leader(wire: WireClient, group: str, joined: JoinGroupResponse, assignment: bytes = b"all") -> None:
    """Give the only member its assignment: the group is stable then."""
    request = a_sync(group, joined.member_id, joined.generation_id, {joined.member_id: assignment})
    answer = wire.call(request, SyncGroupResponse, SYNC_LATEST)
    assert (answer.error_code, answer.assignment) == (ErrorCode.NONE, assignment)
