"""What one term of office of a controller consists of: what it knows, whom it tells, what it watches."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from highwater.controller.controller import Controller
from highwater.controller.events import StopReplicas, TellAll, TellEverybody, TellReplicas

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from highwater.broker.controller_news import ControllerNews
    from highwater.broker.controller_store import ControllerStore
    from highwater.broker.messenger import Messenger
    from highwater.broker.peer import Peer
    from highwater.controller.partition import Leadership
    from highwater.coordination.records import BrokerRecord
    from highwater.model.ids import BrokerId, TopicPartition


class Office:
    """What one term of office needs; gone with it."""

    def __init__(self, store: ControllerStore) -> None:
        self.store = store
        self.core = Controller()
        self.addresses: dict[BrokerId, BrokerRecord] = {}
        self.news: ControllerNews | None = None
        self.messengers: dict[BrokerId, Messenger] = {}
        self.peers: dict[BrokerId, Peer] = {}
        self.stop_watching: list[Callable[[], None]] = []
        self.watched_moves: dict[TopicPartition, Callable[[], None]] = {}
        self.balancing: asyncio.Task[None] | None = None
        self._deletions: dict[str, asyncio.Future[None]] = {}

    def known_states(self, names: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[Leadership, int]]:
        """Return what the core knows of these partitions."""
        found = ((name, self.core.find(name)) for name in names)
        return {name: (held.leadership, held.version) for name, held in found if held is not None}

    def part_with(self, broker: BrokerId) -> None:
        """Tell a broker nothing any more."""
        self.messengers.pop(broker).close()
        peer = self.peers.pop(broker, None)
        if peer is not None:
            peer.close()

    def tell(self, effect: TellReplicas | TellEverybody | TellAll | StopReplicas) -> None:
        """Pass on what brokers shall be told; one that is gone is told everything when it returns."""
        if isinstance(effect, TellEverybody):
            for messenger in self.messengers.values():
                messenger.tell_metadata(effect.partitions)
        elif effect.broker in self.messengers:
            messenger = self.messengers[effect.broker]
            match effect:
                case TellReplicas(_, names):
                    messenger.tell_roles(names)
                case TellAll():
                    messenger.tell_everything()
                case StopReplicas(_, names):
                    messenger.tell_stops(names)

    def when_deleted(self, topic: str) -> asyncio.Future[None]:
        """Return what is done once a topic is forgotten."""
        return self._deletions.setdefault(topic, asyncio.get_running_loop().create_future())

    def deleted(self, topic: str) -> None:
        """Tell who waits for a topic to be forgotten."""
        waiting = self._deletions.pop(topic, None)
        if waiting is not None and not waiting.done():
            waiting.set_result(None)

    def close(self) -> None:
        """End the term."""
        for stop in [*self.stop_watching, *self.watched_moves.values()]:
            stop()
        for broker in list(self.messengers):
            self.part_with(broker)
        if self.balancing is not None:
            self.balancing.cancel()
        for waiting in self._deletions.values():
            waiting.cancel()
