"""Connections, requests and their limits."""

from collections.abc import Mapping
from typing import Final

from highwater.config.parsers import INT32_MAX, byte_count, integer, milliseconds, number_map
from highwater.config.setting import Setting, Update

SOCKET_SEND_BUFFER_BYTES: Final = Setting(
    name="socket.send.buffer.bytes",
    parse=byte_count(at_least=-1),
    default=102_400,
    doc="The size of each connection's send buffer in the kernel. What is queued there beyond what a reader has taken "
    "costs more processor time than it gains, unless the reader is far away; -1 leaves it to the system, which tunes "
    "it by itself unless told a size.",
)

SOCKET_RECEIVE_BUFFER_BYTES: Final = Setting(
    name="socket.receive.buffer.bytes",
    parse=byte_count(at_least=-1),
    default=-1,
    doc="The size of each connection's receive buffer in the kernel; -1 leaves it to the system, which tunes it by "
    "itself unless told a size. Apache Kafka's default is 102400.",
)

SOCKET_REQUEST_MAX_BYTES: Final = Setting(
    name="socket.request.max.bytes",
    parse=byte_count(at_least=1),
    default=100 * 1024 * 1024,
    doc="The largest request that is read; a connection that announces a larger one is closed.",
)

SOCKET_LISTEN_BACKLOG_SIZE: Final = Setting(
    name="socket.listen.backlog.size",
    parse=integer(at_least=1),
    default=1024,
    doc="How many connections may wait to be accepted. Apache Kafka's default is 50.",
)

CONNECTIONS_MAX_IDLE_MS: Final = Setting(
    name="connections.max.idle.ms",
    parse=milliseconds(at_least=-1),
    default=10 * 60 * 1000,
    doc="Close connections on which nothing has been asked or answered for this long; -1 keeps them.",
)

MAX_CONNECTIONS: Final = Setting(
    name="max.connections",
    parse=integer(at_least=0),
    default=INT32_MAX,
    update=Update.CLUSTER_WIDE,
    doc="The most connections to have open at once; further ones are closed as soon as they are accepted.",
)

MAX_CONNECTIONS_PER_IP: Final = Setting(
    name="max.connections.per.ip",
    parse=integer(at_least=0),
    default=INT32_MAX,
    update=Update.CLUSTER_WIDE,
    doc="The most connections to have open at once from one address; further ones are closed.",
)

MAX_CONNECTIONS_PER_IP_OVERRIDES: Final[Setting[Mapping[str, int]]] = Setting(
    name="max.connections.per.ip.overrides",
    parse=number_map(at_least=0),
    default={},
    update=Update.CLUSTER_WIDE,
    doc="Other limits than max.connections.per.ip for some addresses, as address:number pairs.",
)

FETCH_MAX_BYTES: Final = Setting(
    name="fetch.max.bytes",
    parse=byte_count(at_least=1024),
    default=55 * 1024 * 1024,
    doc="The most bytes in one Fetch answer, whatever the client asks for. A first batch that is larger still "
    "goes out.",
)

MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS: Final = Setting(
    name="max.incremental.fetch.session.cache.slots",
    parse=integer(at_least=0),
    default=1000,
    doc="How many incremental fetch sessions to remember; beyond it the longest idle one makes room.",
)

REQUEST_TIMEOUT_MS: Final = Setting(
    name="request.timeout.ms",
    parse=milliseconds(at_least=1, at_most=INT32_MAX),
    default=30_000,
    doc="How long one broker waits for another's answer before it tries again.",
)
