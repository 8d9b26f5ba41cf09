"""Compaction: which records may go, and how much the work may cost."""

from typing import Final

from highwater.config.parsers import INT64_MAX, boolean, byte_count, fraction, integer, milliseconds
from highwater.config.setting import Setting, Update
from highwater.config.settings.log import DAY_MS, KiB, MiB

LOG_CLEANER_ENABLE: Final = Setting(
    name="log.cleaner.enable",
    parse=boolean(),
    default=True,
    doc="Compact topics whose cleanup.policy says so. Without it they, and the offsets topic, grow for ever.",
)

LOG_CLEANER_MIN_CLEANABLE_RATIO: Final = Setting(
    name="log.cleaner.min.cleanable.ratio",
    topic_name="min.cleanable.dirty.ratio",
    parse=fraction(),
    default=0.5,
    update=Update.CLUSTER_WIDE,
    doc="Compact a log once this part of it has come in since the last time. Lower wastes less disk and more work.",
)

LOG_CLEANER_MIN_COMPACTION_LAG_MS: Final = Setting(
    name="log.cleaner.min.compaction.lag.ms",
    topic_name="min.compaction.lag.ms",
    parse=milliseconds(),
    default=0,
    update=Update.CLUSTER_WIDE,
    doc="Leave records alone until they are this old, so that readers can see every one of them.",
)

LOG_CLEANER_MAX_COMPACTION_LAG_MS: Final = Setting(
    name="log.cleaner.max.compaction.lag.ms",
    topic_name="max.compaction.lag.ms",
    parse=milliseconds(at_least=1),
    default=INT64_MAX,
    update=Update.CLUSTER_WIDE,
    doc="Compact once a record has waited this long, however small the part that has come in.",
)

LOG_CLEANER_DELETE_RETENTION_MS: Final = Setting(
    name="log.cleaner.delete.retention.ms",
    topic_name="delete.retention.ms",
    parse=milliseconds(),
    default=DAY_MS,
    update=Update.CLUSTER_WIDE,
    doc="How long a tombstone (a key with no value) stays after compaction. A reader from the beginning must finish "
    "within this time to be sure to see every deletion.",
)

LOG_CLEANER_THREADS: Final = Setting(
    name="log.cleaner.threads",
    parse=integer(at_least=0),
    default=1,
    doc="How many worker processes compact logs.",
)

LOG_CLEANER_BACKOFF_MS: Final = Setting(
    name="log.cleaner.backoff.ms",
    parse=milliseconds(),
    default=15_000,
    doc="How long to wait before looking again when no log needs compacting.",
)

LOG_CLEANER_DEDUPE_BUFFER_SIZE: Final = Setting(
    name="log.cleaner.dedupe.buffer.size",
    parse=byte_count(at_least=1, at_most=INT64_MAX),
    default=128 * MiB,
    doc="The memory for remembering which keys were seen, over all workers.",
)

LOG_CLEANER_IO_BUFFER_SIZE: Final = Setting(
    name="log.cleaner.io.buffer.size",
    parse=byte_count(),
    default=512 * KiB,
    doc="The memory for reading and writing during compaction, over all workers.",
)

LOG_CLEANER_IO_MAX_BYTES_PER_SECOND: Final = Setting(
    name="log.cleaner.io.max.bytes.per.second",
    parse=fraction(at_most=1.7976931348623157e308),
    default=1.7976931348623157e308,
    update=Update.CLUSTER_WIDE,
    doc="The most that compaction may read and write in a second, over all workers.",
)
