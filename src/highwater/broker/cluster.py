"""The cluster as this broker knows it: its id, who is alive and where, and who is the controller."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from highwater.coordination import paths, records
from highwater.coordination.port import Create, NodeExists, NoNode, ensure
from highwater.coordination.records import BrokerRecord, ListenerAddress
from highwater.model.ids import NO_BROKER, BrokerId, topic_id_text
from highwater.model.unique_ids import new_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from highwater.config.listeners import Endpoint
    from highwater.coordination.port import Coordination


STILL_LISTED_S: Final = 3.0
"""How long clients are still told of a broker that is gone.

They hear of the new leaders and of the missing broker in one answer. librdkafka (2.16) then drops the broker while its
partitions are still on the way to their new leaders, loses track of them, and looks again a second later.
"""


@dataclass(frozen=True, slots=True)
class LiveBroker:
    """A broker that is alive."""

    id: BrokerId
    rack: str | None
    listeners: Mapping[str, ListenerAddress]


class Cluster:
    """What this broker knows of the others, and of itself as the others see it."""

    __slots__ = (
        "_departed",
        "brokers",
        "controller_epoch",
        "controller_id",
        "id",
        "is_known",
        "me",
        "on_gone",
        "seem_gone",
    )

    def __init__(
        self,
        cluster_id: str,
        *,
        me: BrokerId,
        controller_id: BrokerId,
        controller_epoch: int,
        brokers: Sequence[LiveBroker],
    ) -> None:
        self.id = cluster_id
        self.me = me
        self.controller_id = controller_id
        self.controller_epoch = controller_epoch
        self.brokers = {broker.id: broker for broker in brokers}
        self.seem_gone: set[BrokerId] = set()
        """Brokers that hung up and at whose address nobody listens, as we found out ourselves."""
        self.on_gone: list[Callable[[BrokerId], None]] = []
        """Called for each broker that was alive and is no more."""
        self._departed: dict[BrokerId, tuple[LiveBroker, float]] = {}
        self.is_known = asyncio.Event()
        """Set from the moment on at which we know who is alive; clients that ask before have to wait for it."""
        if brokers:
            self.is_known.set()

    def learn(self, brokers: Iterable[LiveBroker], *, now_s: float) -> None:
        """Know who is alive by the controller's word."""
        before, self.brokers = self.brokers, {broker.id: broker for broker in brokers}
        self.seem_gone.clear()
        self.is_known.set()
        departed = {broker: (gone, now_s) for broker, gone in before.items()}
        self._departed = {
            broker: left for broker, left in (departed | self._departed).items() if broker not in self.brokers
        }
        for broker in sorted(before.keys() - self.brokers.keys()):
            for call in self.on_gone:
                call(broker)

    def reached_by(self, listener: str) -> list[tuple[LiveBroker, ListenerAddress]]:
        """Return the brokers that have this listener, and where, in the order of their ids."""
        return _reached_by(listener, self.brokers)

    def listed_for(self, listener: str, *, now_s: float) -> list[tuple[LiveBroker, ListenerAddress]]:
        """Return the same for clients that look for leaders: with those that have only just gone."""
        if not self._departed:
            return _reached_by(listener, self.brokers)
        self._departed = {broker: left for broker, left in self._departed.items() if now_s - left[1] < STILL_LISTED_S}
        return _reached_by(listener, {broker: gone for broker, (gone, _) in self._departed.items()} | self.brokers)


def _reached_by(listener: str, brokers: Mapping[BrokerId, LiveBroker]) -> list[tuple[LiveBroker, ListenerAddress]]:
    return [
        (broker, broker.listeners[listener]) for _, broker in sorted(brokers.items()) if listener in broker.listeners
    ]


async def join_alone(
    store: Coordination,
    broker_id: BrokerId,
    endpoints: Sequence[Endpoint],
    *,
    rack: str | None,
    now_ms: int,
    random_bytes: Callable[[int], bytes],
) -> Cluster:
    """Register the one broker of a cluster of one, and make it the controller.

    NodeExists means that another broker is registered: this store is not ours alone.
    """
    for root in paths.ROOTS:
        await ensure(store, root)
    record = registration(endpoints, rack=rack, now_ms=now_ms)
    me = LiveBroker(broker_id, rack, record.listeners)
    cluster_id = await _cluster_id(store, random_bytes)
    await store.multi(
        [
            Create(paths.broker(broker_id), record.encode(), ephemeral=True),
            Create(paths.CONTROLLER, records.encode_controller(broker_id, now_ms), ephemeral=True),
        ]
    )
    epoch = await _next_controller_epoch(store)
    return Cluster(cluster_id, me=broker_id, controller_id=broker_id, controller_epoch=epoch, brokers=[me])


async def find_cluster(store: Coordination, broker_id: BrokerId, random_bytes: Callable[[int], bytes]) -> Cluster:
    """Return what a broker knows of its cluster before it has been told anything: its id."""
    for root in paths.ROOTS:
        await ensure(store, root)
    cluster_id = await _cluster_id(store, random_bytes)
    return Cluster(cluster_id, me=broker_id, controller_id=NO_BROKER, controller_epoch=0, brokers=[])


def registration(endpoints: Sequence[Endpoint], *, rack: str | None, now_ms: int) -> BrokerRecord:
    """Return how a broker says where it is reached."""
    return BrokerRecord(
        listeners={end.name: ListenerAddress(end.advertised.host, end.advertised.port) for end in endpoints},
        security_protocols={endpoint.name: endpoint.security_protocol for endpoint in endpoints},
        rack=rack,
        started_ms=now_ms,
    )


async def _cluster_id(store: Coordination, random_bytes: Callable[[int], bytes]) -> str:
    """Return the cluster's id; the first broker ever gives it one."""
    with suppress(NodeExists):
        await store.create(paths.CLUSTER_ID, records.encode_cluster_id(topic_id_text(new_id(random_bytes))))
    return records.decode_cluster_id(paths.CLUSTER_ID, (await store.read(paths.CLUSTER_ID)).data)


async def _next_controller_epoch(store: Coordination) -> int:
    """Raise the controller epoch by a conditional write; BadVersion means that another controller did so first."""
    try:
        node = await store.read(paths.CONTROLLER_EPOCH)
    except NoNode:
        await store.create(paths.CONTROLLER_EPOCH, b"1")
        return 1
    epoch = int(node.data) + 1
    await store.write(paths.CONTROLLER_EPOCH, b"%d" % epoch, version=node.version)
    return epoch
