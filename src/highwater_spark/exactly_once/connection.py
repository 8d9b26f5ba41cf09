"""One blocking connection to a broker: requests go out, answers come back in the same order."""

import itertools
import socket
import ssl
import struct
from collections import deque
from typing import Final, TypeVar

from highwater.model.errors import ErrorCode, MalformedFrame
from highwater.protocol import codec
from highwater.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from highwater.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from highwater.protocol.schema import Message
from highwater_spark.errors import ClusterError
from highwater_spark.exactly_once.security import Security

Address = tuple[str, int]
ResponseT = TypeVar("ResponseT", bound=Message)

CLIENT_ID: Final = "highwater-spark"
MAX_ANSWER_BYTES: Final = 64 << 20  # the answer about all topics of a large cluster has a few megabytes
_LENGTH: Final = struct.Struct(">i")
_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 2


class Disconnected(Exception):
    """The broker is not there, went away, or said nothing in time; whatever was under way may have happened or not."""


class Connection:
    """A connection and what is under way on it."""

    def __init__(self, address: Address, security: Security, timeout_seconds: float) -> None:
        self.address = address
        self._correlation_ids = itertools.count(1)
        self._under_way: deque[tuple[int, int]] = deque()  # correlation id, API key
        try:
            self._socket = socket.create_connection(address, timeout_seconds)
        except OSError as error:
            raise Disconnected(f"{address[0]}:{address[1]}: {error}") from error
        try:
            self._open(security)
        except BaseException:
            self.close()
            raise

    def _open(self, security: Security) -> None:
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if security.tls:
            try:
                self._socket = security.tls_context().wrap_socket(self._socket, server_hostname=self.address[0])
            except ssl.SSLCertVerificationError as error:
                raise ClusterError(f"{self._name}: its certificate is not trusted: {error.verify_message}") from error
            except OSError as error:
                raise Disconnected(f"{self._name}: {error}") from error
        if security.mechanism is not None:
            self._authenticate(security)

    def _authenticate(self, security: Security) -> None:
        assert security.mechanism is not None
        asked = SaslHandshakeRequest(mechanism=security.mechanism)
        offered = self.call(asked, SaslHandshakeResponse, _HANDSHAKE_VERSION)
        if offered.error_code:
            raise ClusterError(f"{self._name} offers {', '.join(offered.mechanisms)}, not {security.mechanism}")

        def exchange(message: bytes) -> bytes:
            step = SaslAuthenticateRequest(auth_bytes=message)
            answer = self.call(step, SaslAuthenticateResponse, _AUTHENTICATE_VERSION)
            if answer.error_code:
                raise ClusterError(
                    f"{self._name} refuses us: {answer.error_message or ErrorCode(answer.error_code).name}"
                )
            return answer.auth_bytes

        security.authenticate(exchange)

    @property
    def _name(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def close(self) -> None:
        """End the connection; what is under way on it may or may not happen."""
        self._socket.close()

    def send(self, request: Message, version: int) -> None:
        """Send a request; its answer is the next that `receive` was not called for yet."""
        assert request.API_KEY is not None, "a request has a key"
        correlation_id = next(self._correlation_ids)
        header = codec.request_header(codec.RequestHeader(request.API_KEY, version, correlation_id, CLIENT_ID))
        parts: list[codec.Part] = []
        codec.encoder(type(request), version)(request, parts)
        body = [part for part in parts if isinstance(part, bytes | bytearray | memoryview)]
        size = len(header) + sum(map(len, body))
        try:
            self._socket.sendall(b"".join([_LENGTH.pack(size), header, *body]))
        except OSError as error:
            raise Disconnected(f"{self._name}: {error}") from error
        self._under_way.append((correlation_id, request.API_KEY))

    def receive(self, response: type[ResponseT], version: int) -> ResponseT:
        """Return the answer to the oldest request under way."""
        if not self._under_way:
            raise Disconnected(f"{self._name}: the connection was lost, and what was under way on it")
        correlation_id, api_key = self._under_way.popleft()
        (size,) = _LENGTH.unpack(self._read(_LENGTH.size))
        if not 0 < size <= MAX_ANSWER_BYTES:
            raise Disconnected(f"{self._name}: an answer of {size} bytes")
        answer = memoryview(self._read(size))
        try:
            answered, start = codec.read_response_header(answer, api_key, version)
            if answered != correlation_id:
                raise Disconnected(f"{self._name}: answer {answered} came in the place of {correlation_id}")
            return codec.decode(response, version, answer[start:])
        except MalformedFrame as error:
            raise Disconnected(f"{self._name}: {error}") from error

    def call(self, request: Message, response: type[ResponseT], version: int) -> ResponseT:
        """Send a request and return its answer."""
        self.send(request, version)
        return self.receive(response, version)

    def _read(self, size: int) -> bytes:
        received = bytearray(size)
        view, done = memoryview(received), 0
        while done < size:
            try:
                count = self._socket.recv_into(view[done:])
            except OSError as error:
                raise Disconnected(f"{self._name}: {error}") from error
            if not count:
                raise Disconnected(f"{self._name}: the connection was closed")
            done += count
        return bytes(received)
