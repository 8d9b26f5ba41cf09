"""Consumer groups and committed offsets."""

from typing import Final

from highwater.config.parsers import INT32_MAX, INT64_MAX, byte_count, choice, integer, milliseconds, word_list
from highwater.config.setting import Setting
from highwater.config.settings.log import MiB

GROUP_INITIAL_REBALANCE_DELAY_MS: Final = Setting(
    name="group.initial.rebalance.delay.ms",
    parse=milliseconds(at_most=INT32_MAX),
    default=3000,
    doc="How long an empty group waits for more members after the first joins: longer means fewer rebalances when many "
    "start together, and a later first record when one starts alone.",
)

GROUP_MIN_SESSION_TIMEOUT_MS: Final = Setting(
    name="group.min.session.timeout.ms",
    parse=milliseconds(at_most=INT32_MAX),
    default=6000,
    doc="The shortest session timeout that a member of a classic group may ask for.",
)

GROUP_MAX_SESSION_TIMEOUT_MS: Final = Setting(
    name="group.max.session.timeout.ms",
    parse=milliseconds(at_most=INT32_MAX),
    default=30 * 60 * 1000,
    doc="The longest session timeout that a member of a classic group may ask for.",
)

GROUP_MAX_SIZE: Final = Setting(
    name="group.max.size",
    parse=integer(at_least=1),
    default=INT32_MAX,
    doc="The most members that a classic group may have.",
)

GROUP_COORDINATOR_REBALANCE_PROTOCOLS: Final = Setting(
    name="group.coordinator.rebalance.protocols",
    parse=word_list(of=choice("classic", "consumer")),
    default=("classic", "consumer"),
    doc="The group protocols that are served. Apache Kafka has streams and share groups as well.",
)

GROUP_CONSUMER_SESSION_TIMEOUT_MS: Final = Setting(
    name="group.consumer.session.timeout.ms",
    group_name="consumer.session.timeout.ms",
    parse=milliseconds(at_least=1, at_most=INT32_MAX),
    default=45_000,
    doc="How long a member of a consumer group may be silent before it counts as gone.",
)

GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS: Final = Setting(
    name="group.consumer.min.session.timeout.ms",
    parse=milliseconds(at_least=1, at_most=INT32_MAX),
    default=45_000,
    doc="The shortest session timeout that a consumer group may be given.",
)

GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS: Final = Setting(
    name="group.consumer.max.session.timeout.ms",
    parse=milliseconds(at_least=1, at_most=INT32_MAX),
    default=60_000,
    doc="The longest session timeout that a consumer group may be given.",
)

GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS: Final = Setting(
    name="group.consumer.heartbeat.interval.ms",
    group_name="consumer.heartbeat.interval.ms",
    parse=milliseconds(at_least=1, at_most=INT32_MAX),
    default=5000,
    doc="How often members of a consumer group are told to report.",
)

GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS: Final = Setting(
    name="group.consumer.min.heartbeat.interval.ms",
    parse=milliseconds(at_least=1, at_most=INT32_MAX),
    default=5000,
    doc="The shortest heartbeat interval that a consumer group may be given.",
)

GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS: Final = Setting(
    name="group.consumer.max.heartbeat.interval.ms",
    parse=milliseconds(at_least=1, at_most=INT32_MAX),
    default=15_000,
    doc="The longest heartbeat interval that a consumer group may be given.",
)

GROUP_CONSUMER_MAX_SIZE: Final = Setting(
    name="group.consumer.max.size",
    parse=integer(at_least=1),
    default=INT32_MAX,
    doc="The most members that a consumer group may have.",
)

GROUP_CONSUMER_ASSIGNORS: Final = Setting(
    name="group.consumer.assignors",
    parse=word_list(of=choice("uniform", "range"), at_least_one=True),
    default=("uniform", "range"),
    doc="How partitions are shared among the members of a consumer group; the first is used unless a member asks for "
    "another.",
)

GROUP_CONSUMER_MIGRATION_POLICY: Final = Setting(
    name="group.consumer.migration.policy",
    parse=choice("disabled", "upgrade", "downgrade", "bidirectional"),
    default="bidirectional",
    doc="Whether a group may change between the classic and the consumer protocol while members of both are there.",
)

GROUP_CONSUMER_REGEX_REFRESH_INTERVAL_MS: Final = Setting(
    name="group.consumer.regex.refresh.interval.ms",
    parse=milliseconds(at_least=10_000, at_most=INT32_MAX),
    default=10 * 60 * 1000,
    doc="How often to match a group's topic patterns anew when no topic has come or gone.",
)

GROUP_COORDINATOR_APPEND_LINGER_MS: Final = Setting(
    name="group.coordinator.append.linger.ms",
    parse=milliseconds(at_most=INT32_MAX),
    default=0,
    doc="How long a group's changes may wait to be written together with others. With 0 those of one turn of the event "
    "loop are; Apache Kafka waits 5 ms, and so does everyone who commits.",
)

OFFSET_METADATA_MAX_BYTES: Final = Setting(
    name="offset.metadata.max.bytes",
    parse=byte_count(),
    default=4096,
    doc="The longest text that a client may commit with an offset.",
)

OFFSETS_COMMIT_TIMEOUT_MS: Final = Setting(
    name="offsets.commit.timeout.ms",
    parse=milliseconds(at_least=1, at_most=INT32_MAX),
    default=5000,
    doc="How long a commit waits for the replicas of the offsets topic before it is answered with an error.",
)

OFFSETS_RETENTION_MINUTES: Final = Setting(
    name="offsets.retention.minutes",
    parse=integer(at_least=1, unit="minutes"),
    default=7 * 24 * 60,
    doc="How long committed offsets are kept once their group is empty.",
)

OFFSETS_RETENTION_CHECK_INTERVAL_MS: Final = Setting(
    name="offsets.retention.check.interval.ms",
    parse=milliseconds(at_least=1, at_most=INT64_MAX),
    default=10 * 60 * 1000,
    doc="How often to look for committed offsets that are too old.",
)

OFFSETS_LOAD_BUFFER_SIZE: Final = Setting(
    name="offsets.load.buffer.size",
    parse=byte_count(at_least=1),
    default=5 * MiB,
    doc="How much of the offsets topic is read at once when groups are loaded.",
)

OFFSETS_TOPIC_NUM_PARTITIONS: Final = Setting(
    name="offsets.topic.num.partitions",
    parse=integer(at_least=1),
    default=50,
    doc="The partitions of the offsets topic. Do not change it once the topic exists: groups would lose their place.",
)

OFFSETS_TOPIC_REPLICATION_FACTOR: Final = Setting(
    name="offsets.topic.replication.factor",
    parse=integer(at_least=1, at_most=2**15 - 1),
    default=3,
    doc="The replicas of each partition of the offsets topic. A broker without zookeeper.connect is a cluster of one "
    "and makes one replica.",
)

OFFSETS_TOPIC_SEGMENT_BYTES: Final = Setting(
    name="offsets.topic.segment.bytes",
    parse=byte_count(at_least=1),
    default=100 * MiB,
    doc="The segment size of the offsets topic; smaller ones are compacted and loaded sooner.",
)

OFFSETS_TOPIC_COMPRESSION_CODEC: Final = Setting(
    name="offsets.topic.compression.codec",
    parse=integer(at_least=0, at_most=4),
    default=0,
    doc="How the offsets topic is compressed: 0 not, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
)
