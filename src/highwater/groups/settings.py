"""What the group cores need to know of the broker's settings."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple


class MigrationPolicy(StrEnum):
    """Which way a group with members may change its protocol."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        """Whether a classic group may become a consumer group."""
        return self in {MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL}

    @property
    def allows_downgrade(self) -> bool:
        """Whether a consumer group may become a classic group."""
        return self in {MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL}


class ConsumerTiming(NamedTuple):
    """How often members of a consumer group report, and for how long they may be silent."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000


DEFAULT_TIMING: Final = ConsumerTiming()


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
    consumer_timing: ConsumerTiming = DEFAULT_TIMING
    consumer_max_size: int = 2**31 - 1
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The first is used unless members ask for another."""
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
