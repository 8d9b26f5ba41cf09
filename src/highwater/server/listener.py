"""Accepting connections on one address, within the broker's limits."""

from __future__ import annotations

import errno
import socket
from collections import Counter
from typing import TYPE_CHECKING, Final

from highwater.config.settings import network
from highwater.model.log_events import EventLog
from highwater.server.connection import Connection
from highwater.server.inbox import SharedBuffer
from highwater.server.transport import SocketTransport

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle

    from highwater.broker.broker import Broker
    from highwater.config.broker_config import BrokerConfig
    from highwater.server.server_metrics import ServerMetrics

events = EventLog("server")

ACCEPTS_PER_TURN: Final = 128
LEFT_TO_THE_SYSTEM: Final = -1
PAUSE_WITHOUT_DESCRIPTORS_S: Final = 0.5
SWEEP_EVERY_S: Final = 5.0
_OUT_OF_DESCRIPTORS: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_KERNEL_BUFFERS: Final = (
    (socket.SO_SNDBUF, network.SOCKET_SEND_BUFFER_BYTES),
    (socket.SO_RCVBUF, network.SOCKET_RECEIVE_BUFFER_BYTES),
)


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
        *,
        name: str,
        shared_buffer: SharedBuffer,
    ) -> None:
        self._loop = loop
        self._connections = connections
        self._broker: Broker | None = None
        self._shared_buffer = shared_buffer
        self._config = config
        self._socket: socket.socket | None = None
        self.name = name
        self.port = 0

    def bind(self, host: str, port: int) -> None:
        """Take the address, so that a port in use is known before any data is touched."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        bound = socket.socket(family, socket.SOCK_STREAM)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            for option, setting in _KERNEL_BUFFERS:
                if self._config[setting] != LEFT_TO_THE_SYSTEM:
                    bound.setsockopt(socket.SOL_SOCKET, option, self._config[setting])  # accepted sockets inherit it
            bound.bind((host, port))
        except OSError as error:
            bound.close()
            raise OSError(error.errno, error.strerror, f"{host}:{port}") from error
        self._socket = bound
        self.port = bound.getsockname()[1]

    def start(self, broker: Broker) -> None:
        """Accept from now on."""
        assert self._socket is not None
        self._broker = broker
        self._socket.listen(self._config[network.SOCKET_LISTEN_BACKLOG_SIZE])
        self._socket.setblocking(False)
        self._loop.add_reader(self._socket.fileno(), self._accept)

    def close(self) -> None:
        """Accept no more."""
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()
            self._socket = None

    def _accept(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            if self._socket is None:
                return
            try:
                accepted, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _OUT_OF_DESCRIPTORS:
                    raise
                self._pause(error)
                return
            self._welcome(accepted, address[0])

    def _welcome(self, accepted: socket.socket, host: str) -> None:
        if not self._connections.room_for(host):
            self._connections.metrics.closed_for_cause("limit")
            events.warning("connection_refused", host=host, reason="limit", open=len(self._connections))
            accepted.close()
            return
        try:
            transport = SocketTransport(self._loop, accepted)
        except OSError:
            accepted.close()  # gone before we said hello
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

    def _pause(self, error: OSError) -> None:
        """Stop accepting for a moment: without descriptors the listening socket stays readable, and we would spin."""
        assert self._socket is not None
        events.warning("accept_paused", listener=self.name, reason=error.strerror)
        self._loop.remove_reader(self._socket.fileno())
        self._loop.call_later(PAUSE_WITHOUT_DESCRIPTORS_S, self._resume)

    def _resume(self) -> None:
        if self._socket is not None:
            self._loop.add_reader(self._socket.fileno(), self._accept)
