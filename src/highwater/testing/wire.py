"""A client that sends exactly the bytes it is told to: for tests of the wire itself."""

import itertools
import socket
import struct
from types import TracebackType
from typing import Final, Self, TypeVar

from highwater.protocol import codec
from highwater.protocol.schema import Message
from highwater.testing.waiting import PATIENCE_SECONDS

ResponseT = TypeVar("ResponseT", bound=Message)

_LENGTH: Final = struct.Struct(">i")
_CHUNK_BYTES: Final = 32 * 1024
"""Little at a time: the kernel does not stop in the midst of a copy, and benchmarks have readers beside brokers."""


class ConnectionClosed(Exception):
    """The broker ended the connection."""


def frame(request: Message, version: int, correlation_id: int = 0, client_id: str | None = "wire") -> bytes:
    """Return a whole request as it travels: length, header, body."""
    assert request.API_KEY is not None
    header = codec.RequestHeader(request.API_KEY, version, correlation_id, client_id)
    return with_length(codec.request_header(header) + codec.encode(request, version))


def with_length(body: bytes) -> bytes:
    """Return `body` as a frame."""
    return _LENGTH.pack(len(body)) + body


class WireClient:
    """One blocking connection to a broker."""

    def __init__(self, bootstrap: str, *, timeout_seconds: float = PATIENCE_SECONDS) -> None:
        host, _, port = bootstrap.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout_seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_ids = itertools.count(1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection."""
        self.socket.close()

    def send_bytes(self, data: bytes) -> None:
        """Send `data`, whatever it is; what the broker no longer wants is dropped."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise ConnectionClosed from error

    def send(self, request: Message, version: int) -> int:
        """Send a request and return its correlation id."""
        correlation_id = next(self._correlation_ids)
        self.send_bytes(frame(request, version, correlation_id))
        return correlation_id

    def receive_frame(self) -> bytes:
        """Return the next answer, without its length."""
        return bytes(self._next_answer())

    def receive(self, response: type[ResponseT], version: int, correlation_id: int) -> ResponseT:
        """Return the next answer, which must be the one to `correlation_id`."""
        assert response.API_KEY is not None
        answer = memoryview(self._next_answer())
        answered, start = codec.read_response_header(answer, response.API_KEY, version)
        assert answered == correlation_id, f"answer {answered} came in the place of {correlation_id}"
        return codec.decode(response, version, answer[start:])

    def call(self, request: Message, response: type[ResponseT], version: int) -> ResponseT:
        """Send a request and return its answer."""
        return self.receive(response, version, self.send(request, version))

    def wait_for_close(self) -> None:
        """Return when the broker has ended the connection; answers that still come are dropped."""
        try:
            while self.socket.recv(65536):
                pass
        except ConnectionResetError:
            pass

    def _next_answer(self) -> bytes | memoryview:
        (size,) = _LENGTH.unpack(self._receive(_LENGTH.size))
        return self._receive(size)

    def _receive(self, size: int) -> bytes | memoryview:
        received = bytearray()
        while len(received) < size:
            try:
                chunk = self.socket.recv(min(size - len(received), _CHUNK_BYTES))
            except ConnectionResetError as error:
                raise ConnectionClosed from error
            if not chunk:
                raise ConnectionClosed
            received += chunk
        return bytes(received)
