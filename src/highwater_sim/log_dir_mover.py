"""An administrator who moves replicas between the log dirs of their brokers, all the time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.broker.peer import PeerGone
from highwater.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from highwater_history.history import Fault
from highwater_sim.client import Client
from highwater_sim.machine import LOG_DIRS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from highwater_history.history import Place

MOST_AT_ONCE: Final = 3


class LogDirMover(Client):
    """Asks any broker to have some of its replicas elsewhere; that it has not got them is no news."""

    async def run(self, places: Sequence[Place], *, pause_s: float) -> None:
        """Move something for ever."""
        while True:
            await self.rest(pause_s)
            chosen = self.random.sample(places, min(len(places), self.random.randint(1, MOST_AT_ONCE)))
            path, broker = self.random.choice(LOG_DIRS), self.any_broker()
            self.history.add(Fault(self.now, f"broker {broker} shall have {', '.join(map(str, chosen))} in {path}"))
            topics = [AlterReplicaLogDirTopic(name=place.topic, partitions=[place.partition]) for place in chosen]
            request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])
            try:
                await self.ask(broker, request, AlterReplicaLogDirsResponse, version=2)
            except PeerGone:
                continue
