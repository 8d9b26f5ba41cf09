"""Who the broker is, where it listens, where its data is, and how topics come to be."""

from collections.abc import Mapping
from typing import Final

from highwater.config.listeners import (
    LOOPBACK,
    SECURITY_PROTOCOLS,
    Address,
    Listener,
    address,
    listener_list,
)
from highwater.config.parsers import (
    boolean,
    choice,
    integer,
    milliseconds,
    optional,
    secret,
    text,
    word_list,
    word_map,
)
from highwater.config.setting import Fallback, Setting

NODE_ID: Final[Setting[int | None]] = Setting(
    name="node.id",
    parse=optional(integer(at_least=0)),
    default=None,
    doc="Another name for broker.id, so that files written for KRaft work; give one of the two.",
)

BROKER_ID: Final = Setting(
    name="broker.id",
    parse=integer(at_least=0),
    default=0,
    fallbacks=(Fallback(NODE_ID, 1),),
    doc="The number of this broker, different from that of every other broker in the cluster.",
)

BROKER_RACK: Final[Setting[str | None]] = Setting(
    name="broker.rack",
    parse=optional(text()),
    default=None,
    doc="The rack, zone or host this broker stands in. When every broker has one, the replicas of a partition are "
    "spread over as many of them as there are.",
)

LISTENERS: Final = Setting(
    name="listeners",
    parse=listener_list(),
    default=(Listener("PLAINTEXT", Address(LOOPBACK, 9092)),),
    doc="The named addresses to accept connections on. An empty host means every address of the machine. The default "
    "accepts connections from this machine only, where Apache Kafka accepts them from everywhere.",
)

ADVERTISED_LISTENERS: Final[Setting[tuple[Listener, ...] | None]] = Setting(
    name="advertised.listeners",
    parse=optional(listener_list()),
    default=None,
    doc="The addresses that clients are told to connect to, where they differ from listeners. A listener that is bound "
    "to every address and not named here is advertised as 127.0.0.1.",
)

LISTENER_SECURITY_PROTOCOL_MAP: Final[Setting[Mapping[str, str]]] = Setting(
    name="listener.security.protocol.map",
    parse=word_map(values=choice(*SECURITY_PROTOCOLS)),
    default={protocol: protocol for protocol in SECURITY_PROTOCOLS},
    doc="How each listener is secured, as NAME:PROTOCOL pairs. Needed for listeners that are not named after a "
    "protocol.",
)

INTER_BROKER_LISTENER_NAME: Final[Setting[str | None]] = Setting(
    name="inter.broker.listener.name",
    parse=optional(text()),
    default=None,
    doc="The listener that the other brokers connect to. Without it, the first listener that is secured as "
    "security.inter.broker.protocol says.",
)

CONTROLLER_LISTENER_NAMES: Final = Setting(
    name="controller.listener.names",
    parse=word_list(),
    default=(),
    doc="Listeners that a KRaft controller would serve. They are left out here, so that files written for KRaft work.",
)

LOG_DIR: Final[Setting[tuple[str, ...]]] = Setting(
    name="log.dir",
    parse=word_list(at_least_one=True),
    default=("highwater-data",),
    doc="The one folder for all data, when log.dirs is not given. Relative to where the broker is started; the default "
    "is not under /tmp, as Apache Kafka's is, because that may be emptied at a restart of the machine.",
)

LOG_DIRS: Final[Setting[tuple[str, ...]]] = Setting(
    name="log.dirs",
    parse=word_list(at_least_one=True),
    default=("highwater-data",),
    fallbacks=(Fallback(LOG_DIR, 1),),
    doc="The folders that partitions are kept in, ideally one for each disk. A new partition goes to the one that "
    "holds the fewest. When one fails, the partitions in the others go on.",
)

METRICS_LISTENER: Final[Setting[Address | None]] = Setting(
    name="metrics.listener",
    parse=optional(address()),
    default=None,
    doc="Serve metrics for Prometheus on this host:port under /metrics. Not served unless set. This setting is "
    "Highwater's own.",
)

ZOOKEEPER_CONNECT: Final[Setting[str | None]] = Setting(
    name="zookeeper.connect",
    parse=optional(text()),
    default=None,
    doc="The ZooKeeper ensemble that holds the cluster's memory, as host:port,host:port/path. Without it the broker is "
    "a cluster of one and keeps that memory in a file in its first log dir.",
)

ZOOKEEPER_SESSION_TIMEOUT_MS: Final = Setting(
    name="zookeeper.session.timeout.ms",
    parse=milliseconds(at_least=1, at_most=2**31 - 1),
    default=18_000,
    doc="How long ZooKeeper waits to hear from this broker before it counts as dead.",
)

ZOOKEEPER_CONNECTION_TIMEOUT_MS: Final[Setting[int | None]] = Setting(
    name="zookeeper.connection.timeout.ms",
    parse=optional(milliseconds(at_least=1, at_most=2**31 - 1)),
    default=None,
    doc="How long to try to reach ZooKeeper at start before giving up; the session timeout when not given.",
)

ZOOKEEPER_DIGEST_USERNAME: Final[Setting[str | None]] = Setting(
    name="zookeeper.digest.username",
    parse=optional(text()),
    default=None,
    doc="Who this broker is to ZooKeeper, by its digest scheme; all brokers of a cluster are the same user. This "
    "setting is Highwater's own.",
)

ZOOKEEPER_DIGEST_PASSWORD: Final[Setting[str | None]] = Setting(
    name="zookeeper.digest.password",
    parse=optional(secret()),
    default=None,
    sensitive=True,
    doc="The password that goes with zookeeper.digest.username. This setting is Highwater's own.",
)

ZOOKEEPER_SET_ACL: Final = Setting(
    name="zookeeper.set.acl",
    parse=boolean(),
    default=False,
    doc="Let nobody but zookeeper.digest.username change what brokers write to ZooKeeper, nor read credentials there. "
    "Nodes that exist already stay as they are.",
)

AUTO_CREATE_TOPICS_ENABLE: Final = Setting(
    name="auto.create.topics.enable",
    parse=boolean(),
    default=True,
    doc="Create a topic when a client that allows it asks for one that does not exist.",
)

DELETE_TOPIC_ENABLE: Final = Setting(
    name="delete.topic.enable",
    parse=boolean(),
    default=True,
    doc="Let clients delete topics.",
)

NUM_PARTITIONS: Final = Setting(
    name="num.partitions",
    parse=integer(at_least=1),
    default=1,
    doc="How many partitions a topic gets when its creator does not say.",
)

DEFAULT_REPLICATION_FACTOR: Final = Setting(
    name="default.replication.factor",
    parse=integer(at_least=1, at_most=2**15 - 1),
    default=1,
    doc="How many replicas each partition gets when its creator does not say.",
)

MAX_REQUEST_PARTITION_SIZE_LIMIT: Final = Setting(
    name="max.request.partition.size.limit",
    parse=integer(at_least=1),
    default=2000,
    doc="The most partitions that one DescribeTopicPartitions answer lists; the client asks again for the rest.",
)

CONTROLLED_SHUTDOWN_ENABLE: Final = Setting(
    name="controlled.shutdown.enable",
    parse=boolean(),
    default=True,
    doc="Move leadership to other brokers before stopping, so that clients notice nothing.",
)
