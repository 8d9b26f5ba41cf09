"""Where connections come from: the seam between a listener and the network.

A listener never sees a listening socket. It takes an address, is given a transport for each peer that connects, and
stops; a simulated network takes the socket's place by offering the same few methods.
"""

from __future__ import annotations

import errno
import socket
from typing import TYPE_CHECKING, Final, Protocol

from highwater.config.settings import network
from highwater.model.log_events import EventLog
from highwater.server.transport import SocketTransport

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from highwater.config.broker_config import BrokerConfig
    from highwater.server.transport import Transport

events = EventLog("server")

ACCEPTS_PER_TURN: Final = 128
LEFT_TO_THE_SYSTEM: Final = -1
PAUSE_WITHOUT_DESCRIPTORS_S: Final = 0.5
_OUT_OF_DESCRIPTORS: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_KERNEL_BUFFERS: Final = (
    (socket.SO_SNDBUF, network.SOCKET_SEND_BUFFER_BYTES),
    (socket.SO_RCVBUF, network.SOCKET_RECEIVE_BUFFER_BYTES),
)


class Acceptor(Protocol):
    """One address that peers connect to."""

    port: int
    """The port that was taken, once it is."""

    def bind(self, host: str, port: int) -> None:
        """Take the address; port 0 asks for any. Raises OSError."""

    def start(self, welcome: Callable[[Transport, str], None]) -> None:
        """Call `welcome` with the transport and the host of every peer that connects."""

    def close(self) -> None:
        """Accept no more; safe to call twice."""


class SocketAcceptor:
    """A listening TCP socket on the event loop."""

    def __init__(self, loop: AbstractEventLoop, config: BrokerConfig) -> None:
        self._loop = loop
        self._config = config
        self._socket: socket.socket | None = None
        self._welcome: Callable[[Transport, str], None] = _nobody_is_welcome
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

    def start(self, welcome: Callable[[Transport, str], None]) -> None:
        """Accept from now on."""
        assert self._socket is not None
        self._welcome = welcome
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
            try:
                transport = SocketTransport(self._loop, accepted)
            except OSError:
                accepted.close()  # gone before we said hello
                continue
            self._welcome(transport, address[0])

    def _pause(self, error: OSError) -> None:
        """Stop accepting for a moment: without descriptors the listening socket stays readable, and we would spin."""
        assert self._socket is not None
        events.warning("accept_paused", port=self.port, reason=error.strerror)
        self._loop.remove_reader(self._socket.fileno())
        self._loop.call_later(PAUSE_WITHOUT_DESCRIPTORS_S, self._resume)

    def _resume(self) -> None:
        if self._socket is not None:
            self._loop.add_reader(self._socket.fileno(), self._accept)


def _nobody_is_welcome(transport: Transport, host: str) -> None:
    raise AssertionError(f"{host} was accepted before the listener started: {transport}")
