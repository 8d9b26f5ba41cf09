"""Our connection to another broker: requests out, answers back, made anew when it breaks.

Brokers of one cluster speak the same release, so that a request says which version it is sent in and nothing is
negotiated.
"""

from __future__ import annotations

import asyncio
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, TypeVar

from highwater.broker.incoming_frames import IncomingFrames
from highwater.model.errors import ErrorCode, KafkaError, MalformedFrame
from highwater.protocol import codec
from highwater.protocol.headers import RequestHeader, read_response_header, request_header

if TYPE_CHECKING:
    from collections.abc import Callable

    from highwater.coordination.records import ListenerAddress
    from highwater.protocol.schema import Message

ResponseT = TypeVar("ResponseT", bound="Message")

_SIZE: Final = Struct(">i")


class PeerGone(KafkaError):
    """The other broker cannot be reached, or hung up; what it was asked may or may not have been done."""

    code = ErrorCode.NETWORK_EXCEPTION


class PeerSilent(PeerGone):
    """The other broker did not answer in time: it is slow, stopped or cut off."""


class PeerHungUp(PeerGone):
    """The other broker closed the connection, or it was reset: perhaps its process has ended."""


class PeerRefused(PeerGone):
    """Nobody listens at the other broker's address: its process is gone."""


class Peer:
    """One broker, reached at one address. Requests may overlap; each waits for its own answer."""

    def __init__(self, address: ListenerAddress, *, client_id: str, timeout_s: float) -> None:
        self.address = address
        self._client_id = client_id
        self._timeout_s = timeout_s
        self._link: _Link | None = None
        self._connecting = asyncio.Lock()
        self._attempt: asyncio.Timeout | None = None
        """To connect, while it is under way."""
        self._is_closed = False
        self.on_broken: Callable[[], None] | None = None
        """Called when an open connection breaks: the first sign that the other broker's process has ended."""

    async def connect(self) -> None:
        """Open the connection unless it is open. Raises PeerGone, PeerRefused."""
        await self._open()

    async def ask(self, request: Message, response_class: type[ResponseT], *, version: int) -> ResponseT:
        """Send a request and return its answer. Raises PeerGone."""
        link = await self._open()
        try:
            async with asyncio.timeout(self._timeout_s):
                frame = await link.ask(request, version, self._client_id)
        except TimeoutError as error:
            link.close()
            raise PeerSilent(f"{self.address.host}:{self.address.port} does not answer") from error
        assert request.API_KEY is not None, "a request has an API key"
        _, position = read_response_header(frame, request.API_KEY, version)
        response, _ = codec.decoder(response_class, version)(frame, position)
        return response

    def close(self) -> None:
        """Hang up; who waits for an answer gets PeerGone."""
        self._is_closed = True
        self.on_broken = None
        if self._attempt is not None and not self._attempt.expired():
            self._attempt.reschedule(0.0)
        if self._link is not None:
            self._link.close()

    async def _open(self) -> _Link:
        async with self._connecting:
            if self._link is not None and not self._link.is_closed:
                return self._link
            if self._is_closed:
                raise PeerGone(f"the connection to {self.address.host}:{self.address.port} was closed")
            loop = asyncio.get_running_loop()
            try:
                async with asyncio.timeout(self._timeout_s) as self._attempt:
                    _, self._link = await loop.create_connection(
                        lambda: _Link(self._broken), self.address.host, self.address.port
                    )
            except ConnectionRefusedError as error:
                raise PeerRefused(f"nobody listens at {self.address.host}:{self.address.port}") from error
            except TimeoutError as error:
                raise PeerSilent(f"{self.address.host}:{self.address.port} does not answer") from error
            except OSError as error:
                raise PeerGone(f"{self.address.host}:{self.address.port} cannot be reached: {error}") from error
            finally:
                self._attempt = None
            return self._link

    def _broken(self) -> None:
        if self.on_broken is not None:
            self.on_broken()


class _Link(asyncio.BufferedProtocol):
    """One connection, as long as it lasts."""

    def __init__(self, on_broken: Callable[[], None]) -> None:
        self._on_broken = on_broken
        self._transport: asyncio.Transport | None = None
        self._frames = IncomingFrames()
        self._waiting: dict[int, asyncio.Future[memoryview]] = {}
        self._next_correlation_id = 0
        self._is_ours_to_close = False
        self.is_closed = False

    async def ask(self, request: Message, version: int, client_id: str) -> memoryview:
        """Send a request and return the frame of its answer."""
        if self.is_closed or self._transport is None:
            raise PeerGone("the connection broke")
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & 0x7FFFFFFF
        assert request.API_KEY is not None, "a request has an API key"
        header = request_header(RequestHeader(request.API_KEY, version, correlation_id, client_id))
        body = codec.encode(request, version)
        answered: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = answered
        try:
            self._transport.writelines((_SIZE.pack(len(header) + len(body)), header, body))
            return await answered
        finally:
            self._waiting.pop(correlation_id, None)

    def close(self) -> None:
        """Hang up."""
        self._is_ours_to_close = True
        if self._transport is not None:
            self._transport.abort()

    # asyncio's side -------------------------------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        """Keep the transport."""
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's guess is worse than what we know
        """Return where to receive."""
        return self._frames.room()

    def buffer_updated(self, nbytes: int) -> None:
        """Give every whole frame to whoever waits for it."""
        try:
            for frame in self._frames.received(nbytes):
                self._answered(frame)
        except MalformedFrame:
            self.close()

    def _answered(self, frame: memoryview) -> None:
        (correlation_id,) = _SIZE.unpack_from(frame)
        waiting = self._waiting.get(correlation_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(frame)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell everybody who waits, and our owner."""
        self.is_closed = True
        if self._is_ours_to_close:
            broken = PeerGone("the connection was closed")
        else:
            broken = PeerHungUp(f"the connection broke: {exc or 'the other broker hung up'}")
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(broken)
        self._on_broken()
