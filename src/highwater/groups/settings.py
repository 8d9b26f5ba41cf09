"""What the group cores need to know of the broker's settings."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSettings:
    """Limits and delays; the defaults are Apache Kafka 4.1's."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    initial_rebalance_delay_ms: int = 3_000
    new_member_join_timeout_ms: int = 300_000
    max_group_size: int = 2**31 - 1
    max_record_bytes: int = 1_048_588
    """A group's snapshot must fit into one batch of the offsets topic."""
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 10_080 * 60_000
