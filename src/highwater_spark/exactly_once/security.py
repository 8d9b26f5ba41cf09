"""How connections are protected: TLS and SASL, by the settings that Kafka clients know.

Certificates travel by content, so that executors on other machines need no files.
"""

import base64
import hashlib
import hmac
import secrets
import ssl
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from highwater_spark.errors import ClusterError, SetupError, did_you_mean

PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_MAX_ITERATIONS: Final = 1_000_000  # a server that asks for more keeps us busy, not safe
SETTINGS: Final = (
    *("security.protocol", "sasl.mechanism", "sasl.username", "sasl.password"),
    *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.key.password"),
    "ssl.endpoint.identification.algorithm",
)

Exchange = Callable[[bytes], bytes]  # sends one message of the mechanism and returns the broker's


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Security:
    """What a connection does before the first request."""

    tls: bool = False
    mechanism: str | None = None
    username: str = ""
    password: str = ""
    authorities: str | None = None  # PEM, as the next two
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = None
    checks_host: bool = True

    def tls_context(self) -> ssl.SSLContext:
        """Return what wraps the socket."""
        try:
            context = ssl.create_default_context(cadata=self.authorities)
            context.check_hostname = self.checks_host
            if self.certificate is not None:
                # Python loads a client's certificate from files only.
                with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
                    file.write(self.certificate + "\n" + (self.key or ""))
                    file.flush()
                    context.load_cert_chain(file.name, password=self.key_password)
        except (ssl.SSLError, ValueError) as error:
            raise SetupError(f"ssl.*.location: {error}") from error
        return context

    def authenticate(self, exchange: Exchange) -> None:
        """Prove who we are by the mechanism; the broker's own refusal is raised by `exchange`."""
        if self.mechanism == "PLAIN":
            exchange(f"\0{self.username}\0{self.password}".encode())
        elif self.mechanism is not None:
            _scram(self.mechanism, self.username, self.password, exchange)


def security_of(settings: Mapping[str, str]) -> Security:
    """Return what the settings ask for; raises `SetupError` for one that is unknown or cannot be."""
    for name in settings:
        if name not in SETTINGS:
            raise SetupError(f"unknown setting {name!r}{did_you_mean(name, SETTINGS)}")
    protocol = settings.get("security.protocol", "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise SetupError(f"security.protocol {protocol!r} is not one of {', '.join(PROTOCOLS)}")
    mechanism = settings.get("sasl.mechanism", "PLAIN").upper() if protocol.startswith("SASL") else None
    if mechanism is not None and mechanism not in MECHANISMS:
        raise SetupError(f"sasl.mechanism {mechanism!r} is not one of {', '.join(MECHANISMS)}")
    return Security(
        tls=protocol.endswith("SSL"),
        mechanism=mechanism,
        username=settings.get("sasl.username", ""),
        password=settings.get("sasl.password", ""),
        authorities=_pem(settings, "ssl.ca.location"),
        certificate=_pem(settings, "ssl.certificate.location"),
        key=_pem(settings, "ssl.key.location"),
        key_password=settings.get("ssl.key.password"),
        checks_host=settings.get("ssl.endpoint.identification.algorithm", "https") not in {"", "none"},
    )


def _pem(settings: Mapping[str, str], name: str) -> str | None:
    if name not in settings:
        return None
    try:
        return Path(settings[name]).read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        raise SetupError(f"{name}: {settings[name]} cannot be read as PEM: {error}") from error


def _scram(mechanism: str, username: str, password: str, exchange: Exchange) -> None:
    """Run SCRAM (RFC 5802): both sides show that they know the password, and neither tells it."""
    algorithm = mechanism.removeprefix("SCRAM-").replace("-", "").lower()

    def keyed(key: bytes, text: bytes) -> bytes:
        return hmac.digest(key, text, algorithm)

    nonce = secrets.token_urlsafe(24)
    name = username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}"
    challenge = exchange(f"n,,{first}".encode()).decode()
    try:
        told = dict(part.split("=", 1) for part in challenge.split(","))
        salt, iterations, joint = base64.b64decode(told["s"]), int(told["i"]), told["r"]
    except (ValueError, KeyError) as error:
        raise ClusterError(f"{mechanism}: the broker's challenge cannot be read") from error
    if not joint.startswith(nonce) or not 0 < iterations <= _MAX_ITERATIONS:
        raise ClusterError(f"{mechanism}: the broker's challenge is not an answer to ours")
    salted = hashlib.pbkdf2_hmac(algorithm, password.encode(), salt, iterations)
    final = f"c=biws,r={joint}"
    agreed = f"{first},{challenge},{final}".encode()
    client_key = keyed(salted, b"Client Key")
    signature = keyed(hashlib.new(algorithm, client_key).digest(), agreed)
    proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
    verdict = exchange(f"{final},p={base64.b64encode(proof).decode()}".encode())
    expected = b"v=" + base64.b64encode(keyed(keyed(salted, b"Server Key"), agreed))
    if not hmac.compare_digest(verdict.split(b",")[0], expected):
        raise ClusterError(f"{mechanism}: the broker does not know the password of {username!r}")
