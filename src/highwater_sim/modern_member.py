"""A member of a consumer group by the newer protocol (KIP-848): it beats, takes up and gives up what it is told to."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from uuid import UUID

from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from highwater.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from highwater_history.history import Assignment, Owned, Place, Seek
from highwater_sim.client import GROUP, PAUSE_S, check
from highwater_sim.group_member import HEARTBEAT_S, REBALANCE_TIMEOUT_MS, ROUNDS_PER_COMMIT, GroupMember

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from highwater_history.history import History
    from highwater_sim.cluster import Cluster

SETTINGS: Final[Mapping[str, str]] = {
    "group.consumer.min.session.timeout.ms": "4000",
    "group.consumer.session.timeout.ms": "4000",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.consumer.heartbeat.interval.ms": "700",
}
"""What brokers are told, so that members are missed while a seed runs."""
JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVING: Final = 0.03
"""How probable it is that a member leaves, instead of beating."""
OUT_OF_THE_GROUP: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class ModernMember(GroupMember):
    """Reads as part of a group, from `run_as_member` on for ever. Its generation is its member epoch."""

    offsets_version = 9

    def __init__(self, cluster: Cluster, name: str, history: History, *, group: str, topics: Sequence[str]) -> None:
        super().__init__(cluster, name, history, group=group, places=[])
        self._member_id = str(UUID(int=self.random.getrandbits(128)))
        self._generation = JOIN_EPOCH
        self._topics = sorted(topics)
        self._topic_names: dict[bytes, str] = {}
        self._reading: dict[Place, int] = {}
        """How far it has got in what it reads."""
        self._target: frozenset[Place] = frozenset()
        self._is_known = False
        """Whether its coordinator knows what it wants and has."""

    async def run_as_member(self) -> None:
        """Beat and read, again and again."""
        while True:
            try:
                self._coordinator = await self.coordinator_of(self._group, GROUP)
                await self._stay()
            except KafkaError as error:
                self._is_known = False
                if error.code in OUT_OF_THE_GROUP:
                    self._be_out(is_expelled=True)
                await asyncio.sleep(PAUSE_S)

    def _be_out(self, *, is_expelled: bool) -> None:
        self._generation, self._target = JOIN_EPOCH, frozenset()
        self._reading.clear()
        self.history.add(Owned(self.name, self.now, self._group, [], is_expelled))

    async def _stay(self) -> None:
        await self._beat()
        beaten_at = self.now
        for number in range(1, 1_000_000):
            if not self._reading:
                await asyncio.sleep(HEARTBEAT_S)
            for place in list(self._reading):
                await self._read_some(self._reading, place)
            if number % ROUNDS_PER_COMMIT == 0:
                await self._commit(self._reading)
            if self.now - beaten_at >= HEARTBEAT_S:
                beaten_at = self.now
                if self.random.random() < LEAVING:
                    await self._leave()
                await self._beat()

    # Beating --------------------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        if not self._topic_names:
            await self._learn_ids()
        tells_all = not self._is_known
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=self._generation,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS if tells_all else -1,
            subscribed_topic_names=self._topics if tells_all else None,
            topic_partitions=self._owned() if tells_all else None,
        )
        await self._send(request)
        while self._target != self._reading.keys():
            await self._reconcile()
            # What it has given up, others may have; it has to say so.
            await self._send(
                ConsumerGroupHeartbeatRequest(
                    group_id=self._group,
                    member_id=self._member_id,
                    member_epoch=self._generation,
                    topic_partitions=self._owned(),
                )
            )

    async def _send(self, request: ConsumerGroupHeartbeatRequest) -> None:
        answer = await self.ask(self._coordinator, request, ConsumerGroupHeartbeatResponse, version=1)
        check(answer.error_code)
        self._is_known = True
        if self._generation != answer.member_epoch:
            self._generation = answer.member_epoch
            self._note_assignment()
        if answer.assignment is not None:
            self._target = frozenset(
                Place(self._topic_names[told.topic_id], partition)
                for told in answer.assignment.topic_partitions
                for partition in told.partitions
            )

    async def _reconcile(self) -> None:
        """Commit and give up what others shall read, then take up what is new."""
        going = {place: offset for place, offset in self._reading.items() if place not in self._target}
        try:
            await self._commit(going)
        finally:
            for place in going:
                del self._reading[place]
            self.history.add(Owned(self.name, self.now, self._group, sorted(self._reading)))
        for place, offset in (await self._positions(sorted(self._target - self._reading.keys()))).items():
            self.history.add(Seek(self.name, self.now, place, offset, "assigned"))
            self._reading[place] = offset
        self._note_assignment()

    def _note_assignment(self) -> None:
        owned = sorted(self._reading)
        self.history.add(Owned(self.name, self.now, self._group, owned))
        self.history.add(Assignment(self.name, self.now, self._group, self._generation, self._member_id, owned))

    async def _leave(self) -> None:
        await self._commit(self._reading)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self._group, member_id=self._member_id, member_epoch=LEAVE_EPOCH
        )
        self._be_out(is_expelled=False)
        self._is_known = False
        answer = await self.ask(self._coordinator, request, ConsumerGroupHeartbeatResponse, version=1)
        check(answer.error_code)
        await self.rest(HEARTBEAT_S)

    # Topics ---------------------------------------------------------------------------------------------------------

    def _owned(self) -> list[TopicPartitions]:
        ids = {name: topic_id for topic_id, name in self._topic_names.items()}
        by_topic: dict[str, list[int]] = {}
        for place in sorted(self._reading):
            by_topic.setdefault(place.topic, []).append(place.partition)
        return [TopicPartitions(topic_id=ids[name], partitions=found) for name, found in by_topic.items()]

    async def _learn_ids(self) -> None:
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in self._topics])
        answer = await self.ask(self._coordinator, request, MetadataResponse, version=12)
        for told in answer.topics:
            check(told.error_code)
        self._topic_names = {told.topic_id: str(told.name) for told in answer.topics}
