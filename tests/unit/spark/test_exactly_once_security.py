"""The sink's connections log in as Kafka clients do, over plain sockets and over TLS."""

import base64
import hashlib
import hmac
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme

from highwater.model.errors import ErrorCode
from highwater.protocol import codec
from highwater.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from highwater.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from highwater_spark.errors import ClusterError
from highwater_spark.exactly_once.connection import Address, Connection, Disconnected
from highwater_spark.exactly_once.security import Security, security_of

USER, PASSWORD = "a=b,c", "pencil"
ITERATIONS, SALT = 4096, b"salt of the server"


class ScramServer:
    """The broker's side of SCRAM (RFC 5802), which knows only what a broker stores."""

    def __init__(self, algorithm: str, password: str = PASSWORD) -> None:
        self._algorithm = algorithm
        salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), SALT, ITERATIONS)
        self._stored_key = hashlib.new(algorithm, hmac.digest(salted, b"Client Key", algorithm)).digest()
        self._server_key = hmac.digest(salted, b"Server Key", algorithm)
        self._first = self._challenge = ""

    def answer(self, message: bytes) -> bytes | None:
        """Return the next message, or None for a wrong password."""
        text = message.decode()
        if text.startswith("n,,"):
            self._first = text.removeprefix("n,,")
            assert self._first.startswith("n=a=3Db=2Cc,r="), "commas and equal signs in names are escaped"
            nonce = self._first.rsplit("r=", 1)[1] + "and-the-servers"
            self._challenge = f"r={nonce},s={base64.b64encode(SALT).decode()},i={ITERATIONS}"
            return self._challenge.encode()
        without_proof, _, proof = text.rpartition(",p=")
        agreed = f"{self._first},{self._challenge},{without_proof}".encode()
        signature = hmac.digest(self._stored_key, agreed, self._algorithm)
        key = bytes(left ^ right for left, right in zip(base64.b64decode(proof), signature, strict=True))
        if hashlib.new(self._algorithm, key).digest() != self._stored_key:
            return None
        return b"v=" + base64.b64encode(hmac.digest(self._server_key, agreed, self._algorithm))


Answer = Callable[[bytes], bytes | None]


@contextmanager
def a_broker(mechanism: str, answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[Address]:
    """Run a broker that does nothing but log one client in."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        try:
            peer, _ = listener.accept()
            with peer:
                if context is None:
                    log_in(peer, mechanism, answer)
                else:
                    with context.wrap_socket(peer, server_side=True) as talking:
                        log_in(talking, mechanism, answer)
        except (OSError, struct.error):
            pass  # the client went away, as some of these tests want it to

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()
    finally:
        listener.close()
        thread.join(30)


def log_in(talking: socket.socket, mechanism: str, answer: Answer) -> None:
    while True:
        (size,) = struct.unpack(">i", talking.recv(4))
        if size > 1 << 16:
            raise OSError("this is no request")
        frame = memoryview(talking.recv(size))
        header, start = codec.read_request_header(frame)
        if header.api_key == SaslHandshakeRequest.API_KEY:
            asked = codec.decode(SaslHandshakeRequest, header.api_version, frame[start:])
            refused = ErrorCode.UNSUPPORTED_SASL_MECHANISM if asked.mechanism != mechanism else ErrorCode.NONE
            body = codec.encode(SaslHandshakeResponse(error_code=refused, mechanisms=[mechanism]), header.api_version)
        else:
            step = codec.decode(SaslAuthenticateRequest, header.api_version, frame[start:])
            said = answer(bytes(step.auth_bytes))
            found = (
                SaslAuthenticateResponse(
                    error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message="wrong name or password"
                )
                if said is None
                else SaslAuthenticateResponse(auth_bytes=said)
            )
            body = codec.encode(found, header.api_version)
        reply = codec.response_header(header.api_key, header.api_version, header.correlation_id) + body
        talking.sendall(struct.pack(">i", len(reply)) + reply)


def plain(message: bytes) -> bytes | None:
    return b"" if message == f"\0{USER}\0{PASSWORD}".encode() else None


def connect(address: Address, security: Security) -> None:
    Connection(address, security, 10).close()


def settings(mechanism: str, protocol: str = "SASL_PLAINTEXT", password: str = PASSWORD) -> dict[str, str]:
    return {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": USER,
        "sasl.password": password,
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_name_and_a_password_open_the_door_and_wrong_ones_do_not(mechanism: str) -> None:
    algorithm = mechanism.removeprefix("SCRAM-").replace("-", "").lower()

    def answer() -> Answer:
        return plain if mechanism == "PLAIN" else ScramServer(algorithm).answer

    with a_broker(mechanism, answer()) as address:
        connect(address, security_of(settings(mechanism)))
    wrong = security_of(settings(mechanism, password="wrong"))
    with a_broker(mechanism, answer()) as address, pytest.raises(ClusterError, match="wrong name or password"):
        connect(address, wrong)


def test_a_broker_that_does_not_know_the_password_is_not_believed() -> None:
    server = ScramServer("sha256")

    def answer(message: bytes) -> bytes | None:
        said = server.answer(message)
        return b"v=" + base64.b64encode(b"no signature") if said is not None and said.startswith(b"v=") else said

    with a_broker("SCRAM-SHA-256", answer) as address, pytest.raises(ClusterError, match="does not know the password"):
        connect(address, security_of(settings("SCRAM-SHA-256")))


def test_a_mechanism_that_the_broker_does_not_offer_is_told() -> None:
    with a_broker("PLAIN", plain) as address, pytest.raises(ClusterError, match="offers PLAIN, not SCRAM-SHA-512"):
        connect(address, security_of(settings("SCRAM-SHA-512")))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The certificate of an authority, and what a broker on 127.0.0.1 shows: its own certificate with its key."""
    folder = tmp_path_factory.mktemp("tls")
    made = folder / "authority.pem", folder / "broker.pem"
    authority = trustme.CA()
    authority.cert_pem.write_to_path(made[0])
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(made[1])
    return made


def test_tls_goes_with_a_certificate_that_is_trusted_and_with_no_other(certificates: tuple[Path, Path]) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority, shown = certificates
    context.load_cert_chain(shown)
    secured = settings("PLAIN", "SASL_SSL")
    with a_broker("PLAIN", plain, context) as address:
        connect(address, security_of({**secured, "ssl.ca.location": str(authority)}))
    with a_broker("PLAIN", plain, context) as address, pytest.raises(ClusterError, match="certificate is not trusted"):
        connect(address, security_of(secured))
    with a_broker("PLAIN", plain) as address, pytest.raises(Disconnected):
        connect(address, security_of({**secured, "ssl.ca.location": str(authority)}))
