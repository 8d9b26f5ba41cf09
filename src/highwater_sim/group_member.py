"""A member of a consumer group by the classic protocol: joins, reads what it is assigned, commits, rejoins."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from highwater.model.errors import ErrorCode, KafkaError
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
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from highwater.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from highwater_history.history import Assignment, Commit, Place, Position, Seek
from highwater_sim.client import GROUP, PAUSE_S, check
from highwater_sim.consumer import Consumer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from highwater_history.history import History
    from highwater_sim.cluster import Cluster

PROTOCOL: Final = "sim"
SESSION_TIMEOUT_MS: Final = 6000
REBALANCE_TIMEOUT_MS: Final = 8000
HEARTBEAT_S: Final = 0.7
JOIN_PATIENCE_S: Final = 12.0
"""Longer than a rebalance may take: its answer comes at its end."""
POLL_WAIT_MS: Final = 100
ROUNDS_PER_COMMIT: Final = 4


class GroupMember(Consumer):
    """Reads as part of a group, from `run_as_member` on for ever."""

    offsets_version = 8
    """Of the requests that fetch and commit offsets."""

    def __init__(self, cluster: Cluster, name: str, history: History, *, group: str, places: Sequence[Place]) -> None:
        super().__init__(cluster, name, history)
        self._group = group
        self._places = sorted(places)
        self._member_id = ""
        self._generation = -1
        self._coordinator = -1
        self._read_epochs: dict[Place, int] = {}
        """The leader epoch of what was read last, committed with the offset: who goes on from there knows of no older
        leader, as real clients do (KIP-320)."""

    async def run_as_member(self) -> None:
        """Join and read, again and again."""
        while True:
            try:
                self._coordinator = await self.coordinator_of(self._group, GROUP)
                assigned = await self._join()
                await self._read_assigned(await self._positions(assigned))
            except KafkaError as error:
                if error.code in {ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID}:
                    self._member_id = ""
                await asyncio.sleep(PAUSE_S)

    # Joining --------------------------------------------------------------------------------------------------------

    async def _join(self) -> list[Place]:
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            protocol_type=PROTOCOL,
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=self.name.encode())],
        )
        joined = await self.ask(self._coordinator, request, JoinGroupResponse, version=7, patience_s=JOIN_PATIENCE_S)
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = request.member_id = joined.member_id
            joined = await self.ask(
                self._coordinator, request, JoinGroupResponse, version=7, patience_s=JOIN_PATIENCE_S
            )
        check(joined.error_code)
        self._member_id, self._generation = joined.member_id, joined.generation_id
        assignments = []
        if joined.leader == joined.member_id:
            members = sorted(member.member_id for member in joined.members)
            assignments = [
                SyncGroupRequestAssignment(member_id=member, assignment=_written(self._places[number :: len(members)]))
                for number, member in enumerate(members)
            ]
        synced = await self.ask(
            self._coordinator,
            SyncGroupRequest(
                group_id=self._group,
                generation_id=self._generation,
                member_id=self._member_id,
                protocol_type=PROTOCOL,
                protocol_name=PROTOCOL,
                assignments=assignments,
            ),
            SyncGroupResponse,
            version=5,
            patience_s=JOIN_PATIENCE_S,
        )
        check(synced.error_code)
        places = _read(synced.assignment)
        self.history.add(Assignment(self.name, self.now, self._group, self._generation, self._member_id, places))
        return places

    async def _positions(self, places: list[Place]) -> dict[Place, int]:
        """Ask where the group has got to."""
        if not places:
            return {}
        asked_at = self.now
        topics: dict[str, list[int]] = {}
        for place in places:
            topics.setdefault(place.topic, []).append(place.partition)
        group = OffsetFetchRequestGroup(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=self._generation,
            topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=found) for topic, found in topics.items()],
        )
        request = OffsetFetchRequest(groups=[group], require_stable=True)
        answer = await self.ask(self._coordinator, request, OffsetFetchResponse, version=self.offsets_version)
        check(answer.groups[0].error_code)
        positions: dict[Place, int] = {}
        for topic in answer.groups[0].topics:
            for told in topic.partitions:
                check(told.error_code)
                place = Place(topic.name, told.partition_index)
                positions[place] = max(0, told.committed_offset)
                self._read_epochs[place] = told.committed_leader_epoch
                self.know_epoch(place, told.committed_leader_epoch)
                self.history.add(Position(self.name, asked_at, self._group, place, told.committed_offset, self.now))
        return positions

    # Reading --------------------------------------------------------------------------------------------------------

    async def _read_assigned(self, positions: dict[Place, int]) -> None:
        """Read, commit and beat until the group rebalances."""
        for place, offset in positions.items():
            self.history.add(Seek(self.name, self.now, place, offset, "assigned"))
        beaten_at = self.now
        for number in range(1, 1_000_000):
            if not positions:
                await asyncio.sleep(HEARTBEAT_S)
            for place in positions:
                await self._read_some(positions, place)
            if number % ROUNDS_PER_COMMIT == 0:
                await self._commit(positions)
            if self.now - beaten_at >= HEARTBEAT_S:
                beaten_at = self.now
                await self._beat()

    async def _read_some(self, positions: dict[Place, int], place: Place) -> None:
        try:
            fetched = await self.fetch(place, positions[place], max_wait_ms=POLL_WAIT_MS)
        except KafkaError as error:
            if error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                self.history.add(Seek(self.name, self.now, place, 0, "out of range"))
                positions[place] = 0
            self.forget_leader(place)
            await asyncio.sleep(PAUSE_S)
            return
        if fetched.records:
            self.seen(place, positions[place], fetched, group=self._group)
        positions[place] = fetched.position
        if fetched.leader_epoch >= 0:
            self._read_epochs[place] = fetched.leader_epoch

    async def _commit(self, positions: dict[Place, int]) -> None:
        for place, offset in positions.items():
            commit = Commit(self.name, self.now, self._group, place, offset)
            self.history.add(commit)
            partition = OffsetCommitRequestPartition(
                partition_index=place.partition,
                committed_offset=offset,
                committed_leader_epoch=self._read_epochs.get(place, -1),
                committed_metadata="",
            )
            request = OffsetCommitRequest(
                group_id=self._group,
                generation_id_or_member_epoch=self._generation,
                member_id=self._member_id,
                topics=[OffsetCommitRequestTopic(name=place.topic, partitions=[partition])],
            )
            answer = await self.ask(self._coordinator, request, OffsetCommitResponse, version=self.offsets_version)
            check(answer.topics[0].partitions[0].error_code)
            commit.outcome, commit.done_at = "ok", self.now

    async def _beat(self) -> None:
        request = HeartbeatRequest(group_id=self._group, generation_id=self._generation, member_id=self._member_id)
        answer = await self.ask(self._coordinator, request, HeartbeatResponse, version=4)
        check(answer.error_code)


def _written(places: Sequence[Place]) -> bytes:
    return ",".join(f"{place.topic}/{place.partition}" for place in places).encode()


def _read(assignment: bytes) -> list[Place]:
    found = [text.partition("/") for text in bytes(assignment).decode().split(",") if text]
    return [Place(topic, int(partition)) for topic, _, partition in found]
