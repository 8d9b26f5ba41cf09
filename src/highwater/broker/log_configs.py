"""A log's settings out of its topic's: the one place that maps Kafka's names to the storage room's fields."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from highwater.config.setting import Setting
from highwater.config.settings import compaction, log
from highwater.config.topic_settings import TopicSettings
from highwater.protocol.records.compression import Codec
from highwater.storage.log_config import LogConfig

_CODECS: Final[Mapping[str, Codec]] = MappingProxyType(
    {
        "uncompressed": Codec.NONE,
        "gzip": Codec.GZIP,
        "snappy": Codec.SNAPPY,
        "lz4": Codec.LZ4,
        "zstd": Codec.ZSTD,
    }
)
"""By the values of `compression.type`; `producer` is not among them."""
_LEVELS: Final[Mapping[Codec, Setting[int]]] = MappingProxyType(
    {
        Codec.GZIP: log.COMPRESSION_GZIP_LEVEL,
        Codec.LZ4: log.COMPRESSION_LZ4_LEVEL,
        Codec.ZSTD: log.COMPRESSION_ZSTD_LEVEL,
    }
)


def log_config(settings: TopicSettings, *, producer_id_expiration_ms: int) -> LogConfig:
    """Return what the log of a topic with these settings needs to know."""
    policy = settings[log.LOG_CLEANUP_POLICY]
    codec = _CODECS.get(settings[log.COMPRESSION_TYPE])
    level = None if codec is None or codec not in _LEVELS else settings[_LEVELS[codec]]
    return LogConfig(
        segment_bytes=settings[log.LOG_SEGMENT_BYTES],
        segment_ms=settings[log.LOG_ROLL_MS],
        segment_jitter_ms=settings[log.LOG_ROLL_JITTER_MS],
        segment_index_bytes=settings[log.LOG_INDEX_SIZE_MAX_BYTES],
        index_interval_bytes=settings[log.LOG_INDEX_INTERVAL_BYTES],
        max_message_bytes=settings[log.MESSAGE_MAX_BYTES],
        compression=codec,
        compression_level=level,
        log_append_time=settings[log.LOG_MESSAGE_TIMESTAMP_TYPE] == "LogAppendTime",
        message_timestamp_before_max_ms=settings[log.LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS],
        message_timestamp_after_max_ms=settings[log.LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS],
        flush_messages=settings[log.LOG_FLUSH_INTERVAL_MESSAGES],
        flush_ms=settings[log.LOG_FLUSH_INTERVAL_MS],
        delete="delete" in policy,
        compact="compact" in policy,
        retention_ms=settings[log.LOG_RETENTION_MS],
        retention_bytes=settings[log.LOG_RETENTION_BYTES],
        delete_retention_ms=settings[compaction.LOG_CLEANER_DELETE_RETENTION_MS],
        min_compaction_lag_ms=settings[compaction.LOG_CLEANER_MIN_COMPACTION_LAG_MS],
        max_compaction_lag_ms=settings[compaction.LOG_CLEANER_MAX_COMPACTION_LAG_MS],
        min_cleanable_dirty_ratio=settings[compaction.LOG_CLEANER_MIN_CLEANABLE_RATIO],
        file_delete_delay_ms=settings[log.LOG_SEGMENT_DELETE_DELAY_MS],
        producer_id_expiration_ms=producer_id_expiration_ms,
    )
