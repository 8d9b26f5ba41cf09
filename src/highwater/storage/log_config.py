"""The settings of one log: the topic's, with the broker's where the topic has none."""

from dataclasses import dataclass

from highwater.protocol.records.compression import Codec

_WEEK_MS = 7 * 24 * 60 * 60 * 1000
_DAY_MS = 24 * 60 * 60 * 1000
_FOREVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """Names and defaults are those of Kafka's topic settings; -1 stands for "no limit" where Kafka says so."""

    segment_bytes: int = 1024 * 1024 * 1024
    segment_ms: int = _WEEK_MS
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10 * 1024 * 1024
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1_048_588
    compression: Codec | None = None
    """What batches are compressed with; None: what their producer chose."""
    compression_level: int | None = None
    log_append_time: bool = False
    """`message.timestamp.type` is LogAppendTime, not CreateTime."""
    message_timestamp_before_max_ms: int = _FOREVER
    message_timestamp_after_max_ms: int = 60 * 60 * 1000
    flush_messages: int = _FOREVER
    flush_ms: int = _FOREVER
    delete: bool = True
    """`cleanup.policy` includes delete."""
    compact: bool | None = False
    """`cleanup.policy` includes compact; None: who opens the log does not know."""
    retention_ms: int = _WEEK_MS
    retention_bytes: int = -1
    delete_retention_ms: int = _DAY_MS
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _FOREVER
    min_cleanable_dirty_ratio: float = 0.5
    file_delete_delay_ms: int = 60_000
    producer_id_expiration_ms: int = _DAY_MS

    @property
    def syncs_appends(self) -> bool:
        """Whether `flush.messages` asks for an fsync before what is written may be called committed."""
        return self.flush_messages < _FOREVER

    @property
    def roll_after_ms(self) -> int:
        """How much time one segment may span, jitter taken off.

        Only sealed segments are compacted, so `max.compaction.lag.ms` bounds it too.
        """
        span_ms = min(self.segment_ms, self.max_compaction_lag_ms) if self.compact else self.segment_ms
        return span_ms - min(self.segment_jitter_ms, span_ms)
