"""Which segments are old or many enough to go (`retention.ms`, `retention.bytes`, the log start offset)."""

from collections.abc import Sequence

from highwater.storage.log_config import LogConfig
from highwater.storage.segment import Segment


def due_segments(
    segments: Sequence[Segment],
    config: LogConfig,
    *,
    now_ms: int,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
) -> list[Segment]:
    """Return the oldest segments that must go, in order; maybe the active one too, if all it holds has expired.

    Nothing at or above the high watermark goes: the log start offset must never pass it.
    """
    surplus_bytes = sum(segment.size for segment in segments) - config.retention_bytes
    due = []
    ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
    for segment, end_offset in zip(segments, ends, strict=True):
        is_last = segment is segments[-1]
        if end_offset > high_watermark or (is_last and not segment.size):
            break
        below_start = end_offset <= log_start_offset and not is_last
        too_many = config.delete and config.retention_bytes >= 0 and surplus_bytes >= segment.size
        if not (below_start or too_many or (config.delete and _has_expired(segment, config, now_ms))):
            break
        surplus_bytes -= segment.size
        due.append(segment)
    return due


def _has_expired(segment: Segment, config: LogConfig, now_ms: int) -> bool:
    """Say whether even the youngest record is too old. Records without a timestamp are as old as their file."""
    if config.retention_ms < 0:
        return False
    timestamp = segment.largest_timestamp().timestamp
    return now_ms - (timestamp if timestamp >= 0 else segment.created_ms) > config.retention_ms
