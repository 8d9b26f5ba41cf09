"""Connections to the other brokers for one kind of request, made when they are first needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.broker.peer import Peer, PeerGone

if TYPE_CHECKING:
    from highwater.broker.cluster import Cluster
    from highwater.coordination.records import ListenerAddress
    from highwater.model.ids import BrokerId


class Peers:
    """One connection to each broker. Each kind of request has its own, because answers on one come in order.

    Who is told that a broker is gone does not wait for its answers any longer: a machine without power hangs up on
    nobody, and others lead in its place long before a request has timed out.
    """

    def __init__(self, cluster: Cluster, *, listener: str, client_id: str, timeout_s: float) -> None:
        self._cluster = cluster
        self._listener = listener
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._peers: dict[BrokerId, Peer] = {}
        cluster.on_gone.append(self._hang_up)

    def get(self, broker: BrokerId) -> Peer:
        """Return the connection to a broker where it listens now. Raises PeerGone if it is not alive."""
        address = self._address_of(broker)
        peer = self._peers.get(broker)
        if peer is not None and peer.address == address:
            return peer
        self._hang_up(broker)
        if address is None:
            raise PeerGone(f"broker {broker} is not alive")
        peer = self._peers[broker] = Peer(address, client_id=self._client_id, timeout_s=self._timeout_s)
        return peer

    def close(self) -> None:
        """Hang up; who waits for an answer gets PeerGone."""
        for peer in self._peers.values():
            peer.close()
        self._peers.clear()

    def _hang_up(self, broker: BrokerId) -> None:
        peer = self._peers.pop(broker, None)
        if peer is not None:
            peer.close()

    def _address_of(self, broker: BrokerId) -> ListenerAddress | None:
        live = self._cluster.brokers.get(broker)
        if live is None:
            return None
        return live.listeners.get(self._listener) or next(iter(live.listeners.values()), None)
