"""What every append looks at of a log's settings, as plain numbers: looking them up there would cost more each time."""

from functools import lru_cache

from highwater.storage.log_config import LogConfig


class AppendLimits:
    """A part of a LogConfig; logs with equal settings share one."""

    __slots__ = (
        "compact",
        "flush_messages",
        "flush_ms",
        "log_append_time",
        "max_message_bytes",
        "roll_after_ms",
        "segment_bytes",
        "timestamp_after_max_ms",
        "timestamp_before_max_ms",
    )

    def __init__(self, config: LogConfig) -> None:
        self.compact = bool(config.compact)
        self.flush_messages = config.flush_messages
        self.flush_ms = config.flush_ms
        self.log_append_time = config.log_append_time
        self.max_message_bytes = config.max_message_bytes
        self.roll_after_ms = config.roll_after_ms
        self.segment_bytes = config.segment_bytes
        self.timestamp_after_max_ms = config.message_timestamp_after_max_ms
        self.timestamp_before_max_ms = config.message_timestamp_before_max_ms


limits_of = lru_cache(maxsize=64)(AppendLimits)
