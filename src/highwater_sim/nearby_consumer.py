"""A consumer that reads from the replica in its own rack, as its leader tells it (KIP-392)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.broker.peer import PeerGone
from highwater.broker.read_replica import RACK_AWARE
from highwater.model.errors import KafkaError
from highwater_sim.consumer import Consumer

if TYPE_CHECKING:
    from highwater.protocol.messages.fetch import FetchRequest, PartitionData
    from highwater_history.history import History, Place
    from highwater_sim.cluster import Cluster

SETTINGS: Final = {"replica.selector.class": RACK_AWARE}
"""Brokers with these have a rack each, named as themselves."""
LEADER_AGAIN_S: Final = 3.0
"""How long a leader's word counts; real clients take it for as long as their metadata."""


class NearbyConsumer(Consumer):
    """Asks the leader, and then who is closer, until that one refuses or some time has gone by."""

    def __init__(
        self, cluster: Cluster, name: str, history: History, *, rack: str, only_committed: bool = False
    ) -> None:
        super().__init__(cluster, name, history, only_committed=only_committed)
        self._rack = rack
        self._closest: dict[Place, tuple[int, float]] = {}
        """Who is read from instead of the leader, and until when."""
        self.read_nearby = 0

    async def answer_to(self, request: FetchRequest, broker: int, place: Place) -> PartitionData:
        """Ask the closest replica that we know of; what it refuses says nothing of the partition."""
        request.rack_id = self._rack
        closest, until = self._closest.get(place, (-1, 0.0))
        if closest < 0 or until < self.now:
            data = await super().answer_to(request, broker, place)
            if data.preferred_read_replica >= 0:
                self._closest[place] = data.preferred_read_replica, self.now + LEADER_AGAIN_S
            return data
        try:
            data = await super().answer_to(request, closest, place)
        except KafkaError as error:
            del self._closest[place]
            raise PeerGone(f"broker {closest} does not serve {place}: {error}") from error
        self.read_nearby += bool(data.records)
        return data
