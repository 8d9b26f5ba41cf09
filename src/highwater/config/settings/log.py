"""One partition's log: segments, indexes, retention, flushing, what a batch may be. Most can be set on a topic too."""

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
from highwater.config.setting import Fallback, Setting, Update

KiB: Final = 1024
MiB: Final = 1024 * KiB
GiB: Final = 1024 * MiB
MINUTE_MS: Final = 60 * 1000
HOUR_MS: Final = 60 * MINUTE_MS
DAY_MS: Final = 24 * HOUR_MS

LOG_SEGMENT_BYTES: Final = Setting(
    name="log.segment.bytes",
    topic_name="segment.bytes",
    parse=byte_count(at_least=14),
    default=1 * GiB,
    update=Update.CLUSTER_WIDE,
    doc="Roll to a new segment file once the active one reaches this size. Retention deletes whole segments, so a "
    "smaller value frees disk sooner and costs more open files.",
)

LOG_ROLL_HOURS: Final = Setting(
    name="log.roll.hours",
    parse=integer(at_least=1),
    default=168,
    doc="log.roll.ms in hours; the finer one wins.",
)

LOG_ROLL_MS: Final = Setting(
    name="log.roll.ms",
    topic_name="segment.ms",
    parse=milliseconds(at_least=1),
    default=7 * DAY_MS,
    fallbacks=(Fallback(LOG_ROLL_HOURS, HOUR_MS),),
    update=Update.CLUSTER_WIDE,
    doc="Roll to a new segment file once the first record of the active one is this old, even if it is small, so that "
    "retention and compaction can reach quiet partitions.",
)

LOG_ROLL_JITTER_HOURS: Final = Setting(
    name="log.roll.jitter.hours",
    parse=integer(at_least=0),
    default=0,
    doc="log.roll.jitter.ms in hours; the finer one wins.",
)

LOG_ROLL_JITTER_MS: Final = Setting(
    name="log.roll.jitter.ms",
    topic_name="segment.jitter.ms",
    parse=milliseconds(),
    default=0,
    fallbacks=(Fallback(LOG_ROLL_JITTER_HOURS, HOUR_MS),),
    update=Update.CLUSTER_WIDE,
    doc="Roll up to this much earlier, at random, so that many partitions do not roll at the same moment.",
)

LOG_SEGMENT_DELETE_DELAY_MS: Final = Setting(
    name="log.segment.delete.delay.ms",
    topic_name="file.delete.delay.ms",
    parse=milliseconds(),
    default=60_000,
    update=Update.CLUSTER_WIDE,
    doc="How long a segment that was taken out of the log stays on disk, for those who still read it.",
)

LOG_INDEX_SIZE_MAX_BYTES: Final = Setting(
    name="log.index.size.max.bytes",
    topic_name="segment.index.bytes",
    parse=byte_count(at_least=4),
    default=10 * MiB,
    update=Update.CLUSTER_WIDE,
    doc="The most that a segment's offset index may take; a full index rolls the segment.",
)

LOG_INDEX_INTERVAL_BYTES: Final = Setting(
    name="log.index.interval.bytes",
    topic_name="index.interval.bytes",
    parse=byte_count(),
    default=4 * KiB,
    update=Update.CLUSTER_WIDE,
    doc="One index entry for each this many bytes of log. Smaller finds an offset with less scanning and makes larger "
    "indexes.",
)

LOG_PREALLOCATE: Final = Setting(
    name="log.preallocate",
    topic_name="preallocate",
    parse=boolean(),
    default=False,
    update=Update.CLUSTER_WIDE,
    doc="Reserve a segment's full size on disk when it is made.",
)

LOG_RETENTION_HOURS: Final = Setting(
    name="log.retention.hours",
    parse=integer(at_least=-1),
    default=168,
    doc="log.retention.ms in hours; the finer ones win.",
)

LOG_RETENTION_MINUTES: Final[Setting[int | None]] = Setting(
    name="log.retention.minutes",
    parse=optional(integer(at_least=-1)),
    default=None,
    doc="log.retention.ms in minutes; wins over hours, loses to milliseconds.",
)

LOG_RETENTION_MS: Final = Setting(
    name="log.retention.ms",
    topic_name="retention.ms",
    parse=milliseconds(at_least=-1),
    default=7 * DAY_MS,
    fallbacks=(Fallback(LOG_RETENTION_MINUTES, MINUTE_MS), Fallback(LOG_RETENTION_HOURS, HOUR_MS)),
    update=Update.CLUSTER_WIDE,
    doc="Delete segments whose newest record is older than this; -1 keeps them for ever.",
)

LOG_RETENTION_BYTES: Final = Setting(
    name="log.retention.bytes",
    topic_name="retention.bytes",
    parse=byte_count(at_least=-1, at_most=INT64_MAX),
    default=-1,
    update=Update.CLUSTER_WIDE,
    doc="Delete the oldest segments of a partition while it is larger than this; -1 for no limit. It counts for each "
    "partition, so a topic may take this much times its partitions.",
)

LOG_RETENTION_CHECK_INTERVAL_MS: Final = Setting(
    name="log.retention.check.interval.ms",
    parse=milliseconds(at_least=1),
    default=5 * MINUTE_MS,
    doc="How often to look for segments that retention says may go.",
)

LOG_CLEANUP_POLICY: Final = Setting(
    name="log.cleanup.policy",
    topic_name="cleanup.policy",
    parse=word_list(of=choice("delete", "compact"), at_least_one=True),
    default=("delete",),
    update=Update.CLUSTER_WIDE,
    doc="What happens to old records: delete drops them by age and size, compact keeps the newest of each key, and "
    "both together keep the newest of each key until it is too old.",
)

NUM_RECOVERY_THREADS_PER_DATA_DIR: Final = Setting(
    name="num.recovery.threads.per.data.dir",
    parse=integer(at_least=1, at_most=64),
    default=2,
    doc="After a crash, how many processes check the logs of one log dir at once. Little data is checked without them.",
)

LOG_DIRS_MIN_FREE_BYTES: Final = Setting(
    name="log.dirs.min.free.bytes",
    parse=byte_count(at_most=INT64_MAX),
    default=16 * MiB,
    update=Update.CLUSTER_WIDE,
    doc="Refuse records of producers (KAFKA_STORAGE_ERROR, which they retry) while the disk of a partition's log dir "
    "has less room than this. What is left keeps the broker going: replication, committed offsets, checkpoints, "
    "compaction. 0 for no such limit. This setting is Highwater's own.",
)

LOG_FLUSH_INTERVAL_MESSAGES: Final = Setting(
    name="log.flush.interval.messages",
    topic_name="flush.messages",
    parse=integer(at_least=1, at_most=INT64_MAX),
    default=INT64_MAX,
    update=Update.CLUSTER_WIDE,
    doc="Force a partition to disk after this many records. The default leaves it to the system and relies on "
    "replicas; 1 makes every acknowledged record survive a power cut.",
)

LOG_FLUSH_SCHEDULER_INTERVAL_MS: Final = Setting(
    name="log.flush.scheduler.interval.ms",
    parse=milliseconds(at_least=1),
    default=INT64_MAX,
    doc="How often to look for logs that log.flush.interval.ms says must be forced to disk.",
)

LOG_FLUSH_INTERVAL_MS: Final = Setting(
    name="log.flush.interval.ms",
    topic_name="flush.ms",
    parse=milliseconds(),
    default=INT64_MAX,
    fallbacks=(Fallback(LOG_FLUSH_SCHEDULER_INTERVAL_MS, 1),),
    update=Update.CLUSTER_WIDE,
    doc="Force a partition to disk when its oldest unforced record is this old. The default leaves it to the system.",
)

LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS: Final = Setting(
    name="log.flush.offset.checkpoint.interval.ms",
    parse=milliseconds(at_most=INT32_MAX),
    default=60_000,
    doc="How often to write recovery points: what lies below them is not checked after a crash.",
)

LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS: Final = Setting(
    name="log.flush.start.offset.checkpoint.interval.ms",
    parse=milliseconds(at_most=INT32_MAX),
    default=60_000,
    doc="How often to write log start offsets, so that deleted records stay deleted after a crash.",
)

MESSAGE_MAX_BYTES: Final = Setting(
    name="message.max.bytes",
    topic_name="max.message.bytes",
    parse=byte_count(),
    default=1 * MiB + 12,
    update=Update.CLUSTER_WIDE,
    doc="The largest record batch that is accepted, after compression.",
)

LOG_MESSAGE_TIMESTAMP_TYPE: Final = Setting(
    name="log.message.timestamp.type",
    topic_name="message.timestamp.type",
    parse=choice("CreateTime", "LogAppendTime"),
    default="CreateTime",
    update=Update.CLUSTER_WIDE,
    doc="Whether a record keeps the time its producer gave it or gets the time at which the broker appended it.",
)

LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS: Final = Setting(
    name="log.message.timestamp.before.max.ms",
    topic_name="message.timestamp.before.max.ms",
    parse=milliseconds(),
    default=INT64_MAX,
    update=Update.CLUSTER_WIDE,
    doc="Refuse records whose producer's time is further in the past than this. Not checked under LogAppendTime.",
)

LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS: Final = Setting(
    name="log.message.timestamp.after.max.ms",
    topic_name="message.timestamp.after.max.ms",
    parse=milliseconds(),
    default=HOUR_MS,
    update=Update.CLUSTER_WIDE,
    doc="Refuse records whose producer's time is further in the future than this: a wrong clock would keep them from "
    "retention. Not checked under LogAppendTime.",
)

COMPRESSION_TYPE: Final = Setting(
    name="compression.type",
    topic_name="compression.type",
    parse=choice("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"),
    default="producer",
    update=Update.CLUSTER_WIDE,
    doc="Keep batches compressed as their producer sent them, or compress them anew. Anything but producer costs the "
    "broker time on every batch that came otherwise.",
)

COMPRESSION_GZIP_LEVEL: Final = Setting(
    name="compression.gzip.level",
    topic_name="compression.gzip.level",
    parse=integer(at_least=-1, at_most=9),
    default=-1,
    update=Update.CLUSTER_WIDE,
    doc="How hard to try when compression.type is gzip: 1 to 9, or -1 for the library's own choice.",
)

COMPRESSION_LZ4_LEVEL: Final = Setting(
    name="compression.lz4.level",
    topic_name="compression.lz4.level",
    parse=integer(at_least=1, at_most=17),
    default=9,
    update=Update.CLUSTER_WIDE,
    doc="How hard to try when compression.type is lz4.",
)

COMPRESSION_ZSTD_LEVEL: Final = Setting(
    name="compression.zstd.level",
    topic_name="compression.zstd.level",
    parse=integer(at_least=-131072, at_most=22),
    default=3,
    update=Update.CLUSTER_WIDE,
    doc="How hard to try when compression.type is zstd.",
)
