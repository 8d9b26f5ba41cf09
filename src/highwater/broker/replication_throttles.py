"""The rates of replication in force on this broker: what it sends as a leader, what it fetches as a follower.

Only replicas that are named by their topic count, and only while they are not in sync: those that are in sync hold up
writers, and a throttle is for moves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.config.settings import replication
from highwater.replication.throttle import Throttle, is_throttled

if TYPE_CHECKING:
    from collections.abc import Callable

    from highwater.broker.partition import Partition
    from highwater.config.broker_config import BrokerConfig
    from highwater.config.topic_settings import TopicSettings
    from highwater.model.ids import BrokerId


class ReplicationThrottles:
    """Both rates may change at run time; so may the replicas that are named."""

    def __init__(self, broker_id: BrokerId, config: BrokerConfig, *, now_ms: Callable[[], float]) -> None:
        self._broker_id = broker_id
        self._config = config
        self._now_ms = now_ms
        self._sending = Throttle()
        self._fetching = Throttle()

    def name(self, partition: Partition, settings: TopicSettings) -> None:
        """Let a partition count, or not, as its topic's settings say."""
        leaders = settings[replication.LEADER_REPLICATION_THROTTLED_REPLICAS]
        followers = settings[replication.FOLLOWER_REPLICATION_THROTTLED_REPLICAS]
        index, broker = partition.name.partition, self._broker_id
        partition.is_throttled_leader = is_throttled(leaders, partition=index, broker=broker)
        partition.is_throttled_follower = is_throttled(followers, partition=index, broker=broker)

    def holds_back_sending(self, partition: Partition, follower: BrokerId) -> bool:
        """Return whether `follower` gets nothing of this partition for now."""
        if not partition.is_throttled_leader or follower in partition.in_sync_replicas:
            return False
        return self._sending.is_over(now_ms=self._now_ms())

    def sent(self, partition: Partition, follower: BrokerId, size_bytes: int) -> None:
        """Count what a follower gets."""
        if partition.is_throttled_leader and follower not in partition.in_sync_replicas:
            rate = self._config[replication.LEADER_REPLICATION_THROTTLED_RATE]
            self._sending.took(size_bytes, bytes_per_s=rate, now_ms=self._now_ms())

    @property
    def fetches_too_fast(self) -> bool:
        """Whether followers have fetched so much that they should pause, if they are named."""
        return self._fetching.is_over(now_ms=self._now_ms())

    def holds_back_fetching(self, partition: Partition) -> bool:
        """Return whether nothing of this partition is fetched for now; one that has all that is committed goes on."""
        if not partition.is_throttled_follower or partition.is_caught_up:
            return False
        return self.fetches_too_fast

    def fetched(self, partition: Partition, size_bytes: int) -> None:
        """Count what was fetched."""
        if partition.is_throttled_follower and not partition.is_caught_up:
            rate = self._config[replication.FOLLOWER_REPLICATION_THROTTLED_RATE]
            self._fetching.took(size_bytes, bytes_per_s=rate, now_ms=self._now_ms())
