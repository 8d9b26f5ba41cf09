"""A small client that speaks the real protocol: it knows who leads what, asks again when that changed, and no more."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Final, TypeVar

from highwater.broker.peer import Peer, PeerGone
from highwater.coordination.records import ListenerAddress
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from highwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from highwater.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from highwater_history.history import Place
from highwater_sim.machine import PORT

if TYPE_CHECKING:
    from highwater.protocol.schema import Message
    from highwater_history.history import History
    from highwater_sim.cluster import Cluster

ResponseT = TypeVar("ResponseT", bound="Message")

TIMEOUT_S: Final = 4.0
PAUSE_S: Final = 0.1
EARLIEST: Final = -2
LATEST: Final = -1
GROUP: Final = 0
TRANSACTION: Final = 1


class Client:
    """What every simulated client has: connections, metadata, a random of its own."""

    def __init__(self, cluster: Cluster, name: str, history: History) -> None:
        self.name = name
        self.history = history
        self.random = Random(cluster.scheduler.random.getrandbits(64))
        self._cluster = cluster
        self._peers: dict[tuple[int, float], Peer] = {}
        self.leaders: dict[Place, tuple[int, int]] = {}
        """(leader, leader epoch), as a broker told."""

    @property
    def now(self) -> float:
        """The virtual time."""
        return self._cluster.scheduler.now

    def now_ms(self) -> int:
        """What a clock without error shows."""
        return self._cluster.machines[0].now_ms() - self._cluster.machines[0].clock_error_ms

    async def rest(self, average_s: float) -> None:
        """Wait for a while."""
        await asyncio.sleep(self.random.expovariate(1 / average_s))

    # Asking ---------------------------------------------------------------------------------------------------------

    def _peer(self, broker: int, patience_s: float) -> Peer:
        key = broker, patience_s
        if key not in self._peers:
            address = ListenerAddress(f"broker{broker}", PORT)
            self._peers[key] = Peer(address, client_id=self.name, timeout_s=patience_s)
        return self._peers[key]

    async def ask(
        self,
        broker: int,
        request: Message,
        response: type[ResponseT],
        *,
        version: int,
        patience_s: float = TIMEOUT_S,
    ) -> ResponseT:
        """Ask one broker. PeerGone if it does not answer in time."""
        self._cluster.client_requests += 1
        return await self._peer(broker, patience_s).ask(request, response, version=version)

    def hang_up(self) -> None:
        """Close every connection; the next question opens another."""
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()

    def any_broker(self) -> int:
        """Return a broker, which may be dead."""
        return self.random.randint(1, len(self._cluster.machines))

    async def refresh(self, topic: str) -> None:
        """Learn who leads the partitions of a topic, from any broker; it may know nothing, or old things."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        try:
            answer = await self.ask(self.any_broker(), request, MetadataResponse, version=9)
        except PeerGone:
            await asyncio.sleep(PAUSE_S)
            return
        for told in answer.topics:
            for partition in told.partitions:
                place = Place(topic, partition.partition_index)
                known = self.leaders.get(place, (-1, -1))
                if partition.leader_epoch >= known[1]:
                    self.leaders[place] = partition.leader_id, partition.leader_epoch

    async def leader_of(self, place: Place) -> tuple[int, int]:
        """Return who leads a partition, and in which epoch. PeerGone if nobody does, for what we know."""
        if self.leaders.get(place, (-1, -1))[0] < 0:
            await self.refresh(place.topic)
        leader = self.leaders.get(place, (-1, -1))
        if leader[0] < 0:
            raise PeerGone(f"nobody leads {place}")
        return leader

    def know_epoch(self, place: Place, epoch: int) -> None:
        """Take no older news of a partition: somebody has read what was written in this epoch (KIP-320)."""
        if epoch > self.leaders.get(place, (-1, -1))[1]:
            self.leaders[place] = -1, epoch

    def forget_leader(self, place: Place) -> None:
        """Ask anew before the next request; the epoch stays known, so that older news is not taken."""
        if place in self.leaders:
            self.leaders[place] = -1, self.leaders[place][1]

    async def offset_of(self, place: Place, which: int) -> int:
        """Return where a partition begins or ends, as its leader tells. KafkaError if it does not."""
        leader, epoch = await self.leader_of(place)
        wanted = ListOffsetsPartition(partition_index=place.partition, current_leader_epoch=epoch, timestamp=which)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=place.topic, partitions=[wanted])])
        answer = await self.ask(leader, request, ListOffsetsResponse, version=6)
        found = answer.topics[0].partitions[0]
        check(found.error_code)
        return found.offset

    async def coordinator_of(self, key: str, key_type: int) -> int:
        """Return who coordinates a group or a transactional id. KafkaError if nobody does."""
        request = FindCoordinatorRequest(coordinator_keys=[key], key_type=key_type)
        answer = await self.ask(self.any_broker(), request, FindCoordinatorResponse, version=4)
        found = answer.coordinators[0]
        check(found.error_code)
        return found.node_id


def check(error_code: int) -> None:
    """Raise what a broker answered."""
    if error_code:
        code = ErrorCode(error_code)
        raise KafkaError(f"the broker answers {code.name}", code=code)
