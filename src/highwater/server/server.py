"""All listeners of one broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.server.inbox import SharedBuffer
from highwater.server.listener import Connections, Listener
from highwater.server.server_metrics import ServerMetrics

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from highwater.broker.broker import Broker
    from highwater.config.broker_config import BrokerConfig
    from highwater.config.listeners import Endpoint
    from highwater.metrics.registry import Registry
    from highwater.server.acceptor import Acceptor


class Server:
    """Binds first, serves when the broker behind it is ready, and stops before it goes."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        config: BrokerConfig,
        registry: Registry,
        new_acceptor: Callable[[AbstractEventLoop, BrokerConfig], Acceptor],
    ) -> None:
        self._loop = loop
        self._new_acceptor = new_acceptor
        self._config = config
        self._shared_buffer = SharedBuffer()
        self._listeners: list[Listener] = []
        self.connections = Connections(loop, ServerMetrics(registry), config)

    def bind(self, endpoints: tuple[Endpoint, ...]) -> tuple[Endpoint, ...]:
        """Take every address, so that one in use is known before any data is touched; return what was bound."""
        bound = []
        for endpoint in endpoints:
            listener = Listener(
                self._loop,
                self.connections,
                self._config,
                self._new_acceptor(self._loop, self._config),
                name=endpoint.name,
                shared_buffer=self._shared_buffer,
            )
            listener.bind(endpoint.bind.host, endpoint.bind.port)
            self._listeners.append(listener)
            bound.append(endpoint.bound_to(listener.port))
        return tuple(bound)

    def start(self, broker: Broker) -> None:
        """Accept connections and answer for `broker`."""
        for listener in self._listeners:
            listener.start(broker)

    def stop(self) -> None:
        """Accept no more, and close every connection."""
        for listener in self._listeners:
            listener.close()
        self.connections.close_all()
