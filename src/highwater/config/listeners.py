"""Listeners: where a broker accepts connections, and where it tells clients to connect."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from highwater.config.setting import BadValue, Parser, WireType

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
ANY_ADDRESS: Final = frozenset({"", "0.0.0.0", "::"})  # noqa: S104  (compared with, never bound here)
LOOPBACK: Final = "127.0.0.1"
"""Advertised when a listener is bound to every address: some clients resolve `localhost` to ::1 first."""


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port, as in `127.0.0.1:9092`; the host is empty when every address is meant."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Listener:
    """A named address, as in `PLAINTEXT://127.0.0.1:9092`."""

    name: str
    address: Address

    def __str__(self) -> str:
        return f"{self.name}://{self.address}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A listener with all that is needed to serve it."""

    name: str
    bind: Address
    advertised: Address
    security_protocol: str

    def bound_to(self, port: int) -> "Endpoint":
        """Return this endpoint once the system has chosen `port` for it (it was 0 in the settings)."""
        advertised = replace(self.advertised, port=port) if self.advertised.port == 0 else self.advertised
        return replace(self, bind=replace(self.bind, port=port), advertised=advertised)

    @property
    def uses_tls(self) -> bool:
        """Return whether the connection is encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Return whether clients must say who they are before anything else."""
        return self.security_protocol.startswith("SASL")


def _read_address(given: str) -> Address:
    host, colon, port = given.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise BadValue(f"must end in a port from 0 to 65535, not {given!r}")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise BadValue(f"must have an IPv6 address in brackets, as in [::1]:9092, not {given!r}")
    return Address(host, int(port))


def address() -> Parser[Address]:
    """A host and port."""
    return Parser(WireType.STRING, "host:port", _read_address, str)


def _read_listener(given: str) -> Listener:
    name, separator, where = given.partition("://")
    if not separator or not name:
        raise BadValue(f"must be NAME://host:port, not {given!r}")
    return Listener(name.upper(), _read_address(where))


def _read_listeners(given: str) -> tuple[Listener, ...]:
    listeners = tuple(_read_listener(piece.strip()) for piece in given.split(",") if piece.strip())
    if not listeners:
        raise BadValue("must name at least one listener")
    names = [listener.name for listener in listeners]
    for name in names:
        if names.count(name) > 1:
            raise BadValue(f"names listener {name} twice")
    return listeners


def listener_list() -> Parser[tuple[Listener, ...]]:
    """Named addresses separated by commas."""
    return Parser(
        WireType.STRING,
        "NAME://host:port, several separated by commas",
        _read_listeners,
        lambda listeners: ",".join(map(str, listeners)),
    )


def endpoints(
    listeners: tuple[Listener, ...],
    advertised: tuple[Listener, ...],
    protocols: Mapping[str, str],
    *,
    left_out: frozenset[str],
) -> tuple[Endpoint, ...]:
    """Return what to serve: every listener but those `left_out`, with its protocol and its advertised address.

    Raises BadValue with a sentence that names the listener when the settings do not fit together.
    """
    addresses = {listener.name: listener.address for listener in advertised if listener.name not in left_out}
    served = [listener for listener in listeners if listener.name not in left_out]
    if not served:
        raise BadValue("listeners leaves no listener for clients")
    if strangers := sorted(addresses.keys() - {listener.name for listener in served}):
        raise BadValue(f"advertised.listeners names {', '.join(strangers)}, which listeners does not have")
    return tuple(_endpoint(listener, addresses.get(listener.name), protocols) for listener in served)


def _endpoint(listener: Listener, advertised: Address | None, protocols: Mapping[str, str]) -> Endpoint:
    protocol = protocols.get(listener.name)
    if protocol is None:
        raise BadValue(f"listener.security.protocol.map does not say how {listener.name} is secured")
    if advertised is None:
        host = LOOPBACK if listener.address.host in ANY_ADDRESS else listener.address.host
        advertised = Address(host, listener.address.port)
    elif advertised.host in ANY_ADDRESS:
        raise BadValue(f"advertised.listeners must give {listener.name} an address that clients can connect to")
    return Endpoint(listener.name, listener.address, advertised, protocol)
