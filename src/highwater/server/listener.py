"""Accepting connections on one address, within the broker's limits."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from highwater.config.settings import network
from highwater.model.log_events import EventLog
from highwater.server.connection import Connection
from highwater.server.inbox import SharedBuffer

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle

    from highwater.broker.broker import Broker
    from highwater.config.broker_config import BrokerConfig
    from highwater.server.acceptor import Acceptor
    from highwater.server.server_metrics import ServerMetrics
    from highwater.server.transport import Transport

events = EventLog("server")

SWEEP_EVERY_S: Final = 5.0


class Connections:
    """Every open connection of the broker, over all its listeners; closes those that are idle too long."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        metrics: ServerMetrics,
        config: BrokerConfig,
    ) -> None:
        self._loop = loop
        self.metrics = metrics
        self._config = config
        self._max_idle_s = config[network.CONNECTIONS_MAX_IDLE_MS] / 1000
        self._sweep_every_s = min(self._max_idle_s / 4, SWEEP_EVERY_S) if self._max_idle_s > 0 else SWEEP_EVERY_S
        self._open: dict[Connection, tuple[str, str]] = {}
        self._per_host: Counter[str] = Counter()
        self._sweep_timer: TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._open)

    def room_for(self, host: str) -> bool:
        """Return whether one more connection from `host` is within the limits, which may change while we run."""
        if len(self._open) >= self._config[network.MAX_CONNECTIONS]:
            return False
        exceptions = self._config[network.MAX_CONNECTIONS_PER_IP_OVERRIDES]
        limit = exceptions.get(host, self._config[network.MAX_CONNECTIONS_PER_IP])
        return self._per_host[host] < limit

    def add(self, connection: Connection, host: str, listener_name: str) -> None:
        """Count a new connection."""
        self._open[connection] = host, listener_name
        self._per_host[host] += 1
        self.metrics.accepted(listener_name)
        if self._sweep_timer is None:
            self._sweep_timer = self._loop.call_later(self._sweep_every_s, self._sweep)

    def discard(self, connection: Connection) -> None:
        """Count a closed one out."""
        known = self._open.pop(connection, None)
        if known is None:
            return
        host, listener_name = known
        self.metrics.closed(listener_name)
        self._per_host[host] -= 1
        if not self._per_host[host]:
            del self._per_host[host]

    def _sweep(self) -> None:
        """Close what is idle for too long, and what died without telling."""
        idle_before = self._loop.time() - self._max_idle_s
        for connection in list(self._open):
            if connection.is_dead():
                connection.close("the peer is gone")
            elif self._max_idle_s > 0 and connection.last_active_at < idle_before:
                self.metrics.closed_for_cause("idle")
                connection.close("idle for longer than connections.max.idle.ms")
        self._sweep_timer = self._loop.call_later(self._sweep_every_s, self._sweep) if self._open else None

    def close_all(self) -> None:
        """Close every connection."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
            self._sweep_timer = None
        for connection in list(self._open):
            connection.close("the broker stops")


class Listener:
    """One address that clients connect to."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        connections: Connections,
        config: BrokerConfig,
        acceptor: Acceptor,
        *,
        name: str,
        shared_buffer: SharedBuffer,
    ) -> None:
        self._loop = loop
        self._connections = connections
        self._broker: Broker | None = None
        self._shared_buffer = shared_buffer
        self._config = config
        self._acceptor = acceptor
        self.name = name

    @property
    def port(self) -> int:
        """The port that was taken."""
        return self._acceptor.port

    def bind(self, host: str, port: int) -> None:
        """Take the address, so that a port in use is known before any data is touched."""
        self._acceptor.bind(host, port)

    def start(self, broker: Broker) -> None:
        """Accept from now on."""
        self._broker = broker
        self._acceptor.start(self._welcome)

    def close(self) -> None:
        """Accept no more."""
        self._acceptor.close()

    def _welcome(self, transport: Transport, host: str) -> None:
        if not self._connections.room_for(host):
            self._connections.metrics.closed_for_cause("limit")
            events.warning("connection_refused", host=host, reason="limit", open=len(self._connections))
            transport.close()
            return
        assert self._broker is not None
        connection = Connection(
            transport,
            broker=self._broker,
            loop=self._loop,
            shared_buffer=self._shared_buffer,
            max_frame_bytes=self._config[network.SOCKET_REQUEST_MAX_BYTES],
            listener_name=self.name,
            metrics=self._connections.metrics,
            on_close=self._connections.discard,
        )
        self._connections.add(connection, host, self.name)
