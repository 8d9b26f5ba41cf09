"""Replicas: who is in sync, how followers fetch, who may lead."""

from typing import Final

from highwater.config.parsers import (
    INT32_MAX,
    INT64_MAX,
    boolean,
    byte_count,
    choice,
    integer,
    milliseconds,
    optional,
    word_list,
)
from highwater.config.setting import Setting, Update
from highwater.config.settings.log import KiB, MiB

REPLICA_LAG_TIME_MAX_MS: Final = Setting(
    name="replica.lag.time.max.ms",
    parse=milliseconds(at_least=1),
    default=10_000,
    doc="A follower that has not caught up with the leader for this long leaves the in-sync replicas. Apache Kafka "
    "waits 30 seconds; the shorter wait bounds how long acks=all hangs on a dead follower.",
)

MIN_INSYNC_REPLICAS: Final = Setting(
    name="min.insync.replicas",
    topic_name="min.insync.replicas",
    parse=integer(at_least=1),
    default=1,
    update=Update.CLUSTER_WIDE,
    doc="Refuse writes with acks=all while fewer replicas than this are in sync. 2 with three replicas loses nothing "
    "when any one broker does.",
)

UNCLEAN_LEADER_ELECTION_ENABLE: Final = Setting(
    name="unclean.leader.election.enable",
    topic_name="unclean.leader.election.enable",
    parse=boolean(),
    default=False,
    update=Update.CLUSTER_WIDE,
    doc="Let a replica that is not in sync lead when none that is in sync is alive: available again sooner, at the "
    "price of committed records.",
)

REPLICA_SELECTOR_CLASS: Final = Setting(
    name="replica.selector.class",
    parse=optional(
        choice(
            "org.apache.kafka.common.replica.RackAwareReplicaSelector",
            "org.apache.kafka.common.replica.LeaderSelector",
        )
    ),
    default=None,
    doc="RackAwareReplicaSelector lets consumers with a client.rack read from an in-sync follower in that rack "
    "(broker.rack) instead of the leader: less traffic between racks, and records a moment later.",
)

NUM_REPLICA_FETCHERS: Final = Setting(
    name="num.replica.fetchers",
    parse=integer(at_least=1),
    default=1,
    doc="How many connections a follower opens to each leader it follows.",
)

REPLICA_FETCH_MIN_BYTES: Final = Setting(
    name="replica.fetch.min.bytes",
    parse=byte_count(),
    default=1,
    doc="A follower's fetch waits at the leader until this much is there.",
)

REPLICA_FETCH_WAIT_MAX_MS: Final = Setting(
    name="replica.fetch.wait.max.ms",
    parse=milliseconds(at_least=1, at_most=INT32_MAX),
    default=500,
    doc="A follower's fetch waits at the leader at most this long. Keep it below replica.lag.time.max.ms.",
)

REPLICA_FETCH_MAX_BYTES: Final = Setting(
    name="replica.fetch.max.bytes",
    parse=byte_count(),
    default=1 * MiB,
    doc="How much of one partition a follower fetches at once. A first batch that is larger still comes.",
)

REPLICA_FETCH_RESPONSE_MAX_BYTES: Final = Setting(
    name="replica.fetch.response.max.bytes",
    parse=byte_count(),
    default=10 * MiB,
    doc="How much a follower fetches at once over all partitions.",
)

REPLICA_FETCH_BACKOFF_MS: Final = Setting(
    name="replica.fetch.backoff.ms",
    parse=milliseconds(at_most=INT32_MAX),
    default=1000,
    doc="How long a follower leaves a partition alone after fetching it failed.",
)

REPLICA_SOCKET_TIMEOUT_MS: Final = Setting(
    name="replica.socket.timeout.ms",
    parse=milliseconds(at_least=1, at_most=INT32_MAX),
    default=30_000,
    doc="How long a follower waits for a leader's answer before it connects anew. At least replica.fetch.wait.max.ms.",
)

REPLICA_SOCKET_RECEIVE_BUFFER_BYTES: Final = Setting(
    name="replica.socket.receive.buffer.bytes",
    parse=byte_count(at_least=-1),
    default=64 * KiB,
    doc="The size of the kernel's receive buffer for a follower's connection; -1 leaves it to the system.",
)

REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS: Final = Setting(
    name="replica.high.watermark.checkpoint.interval.ms",
    parse=milliseconds(at_least=1),
    default=5000,
    doc="How often to write high watermarks to disk.",
)

REPLICA_ALTER_LOG_DIRS_IO_MAX_BYTES_PER_SECOND: Final = Setting(
    name="replica.alter.log.dirs.io.max.bytes.per.second",
    parse=byte_count(at_least=1, at_most=INT64_MAX),
    default=INT64_MAX,
    update=Update.PER_BROKER,
    doc="How much is copied in a second, all together, when partitions move from one log dir to another.",
)

CONTROLLER_SOCKET_TIMEOUT_MS: Final = Setting(
    name="controller.socket.timeout.ms",
    parse=milliseconds(at_least=1, at_most=INT32_MAX),
    default=30_000,
    doc="How long the controller waits for a broker's answer before it connects anew.",
)

AUTO_LEADER_REBALANCE_ENABLE: Final = Setting(
    name="auto.leader.rebalance.enable",
    parse=boolean(),
    default=True,
    doc="Give leadership back to the preferred (first) replica by itself once brokers have returned.",
)

LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS: Final = Setting(
    name="leader.imbalance.check.interval.seconds",
    parse=integer(at_least=1, at_most=INT64_MAX, unit="seconds"),
    default=300,
    doc="How often to look whether leadership should go back to the preferred replicas.",
)

LEADER_IMBALANCE_PER_BROKER_PERCENTAGE: Final = Setting(
    name="leader.imbalance.per.broker.percentage",
    parse=integer(at_least=0, at_most=100),
    default=10,
    doc="Give leadership back once more than this share of a broker's preferred partitions is led elsewhere.",
)

LEADER_REPLICATION_THROTTLED_RATE: Final = Setting(
    name="leader.replication.throttled.rate",
    parse=integer(at_least=0, at_most=INT64_MAX, unit="bytes a second"),
    default=INT64_MAX,
    update=Update.PER_BROKER,
    doc="The most that this broker sends in a second to followers of throttled replicas.",
)

FOLLOWER_REPLICATION_THROTTLED_RATE: Final = Setting(
    name="follower.replication.throttled.rate",
    parse=integer(at_least=0, at_most=INT64_MAX, unit="bytes a second"),
    default=INT64_MAX,
    update=Update.PER_BROKER,
    doc="The most that this broker fetches in a second for throttled replicas.",
)

LEADER_REPLICATION_THROTTLED_REPLICAS: Final = Setting(
    name="leader.replication.throttled.replicas",
    topic_name="leader.replication.throttled.replicas",
    parse=word_list(),
    default=(),
    topic_only=True,
    doc="Which replicas count against leader.replication.throttled.rate, as partition:broker pairs; * for all.",
)

FOLLOWER_REPLICATION_THROTTLED_REPLICAS: Final = Setting(
    name="follower.replication.throttled.replicas",
    topic_name="follower.replication.throttled.replicas",
    parse=word_list(),
    default=(),
    topic_only=True,
    doc="Which replicas count against follower.replication.throttled.rate, as partition:broker pairs; * for all.",
)
