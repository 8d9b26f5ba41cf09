"""Which groups this broker coordinates: those of the offsets topic's partitions that it leads."""

from __future__ import annotations

from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from highwater.broker.group_loading import load
from highwater.broker.group_shard import LoadedShard
from highwater.broker.group_topics import GroupTopics
from highwater.broker.journal import Journal, JournalSettings
from highwater.broker.shards import Shards
from highwater.broker.topics import OFFSETS_TOPIC
from highwater.config.settings import groups as settings
from highwater.groups.removal import deletion_of_topics
from highwater.groups.settings import ConsumerTiming, GroupSettings, MigrationPolicy
from highwater.groups.shard import GroupShard
from highwater.metrics import declared
from highwater.model.coordinator_partition import partition_for
from highwater.protocol.records.compression import Codec

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle
    from collections.abc import Callable, Iterator, Mapping

    from highwater.broker.appends import Appends
    from highwater.broker.cluster import Cluster
    from highwater.broker.group_metrics import GroupMetrics
    from highwater.broker.partition import Partition
    from highwater.broker.topics import Topics
    from highwater.config.broker_config import BrokerConfig
    from highwater.metrics.registry import Registry, Sample


class GroupCoordinator:
    """The shards of the partitions that we lead, each loading or loaded."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        config: BrokerConfig,
        *,
        appends: Appends,
        wall_ms: Callable[[], int],
        new_id: Callable[[], str],
        metrics: GroupMetrics,
        topics: Topics,
        cluster: Cluster,
        timings: Mapping[str, ConsumerTiming] = MappingProxyType({}),
    ) -> None:
        """`timings` are those of the consumer groups that have their own."""
        self._loop = loop
        self._config = config
        self._appends = appends
        self._wall_ms = wall_ms
        self._new_id = new_id
        self._metrics = metrics
        self._topics = topics
        self._timings = timings
        self._group_topics = GroupTopics(topics, cluster)
        topics.watch(self.topic_changed)
        self._shards = Shards(loop, self._load)
        self._expiry_timer: TimerHandle | None = None
        self._expire_later()

    # Finding a group ------------------------------------------------------------------------------------------------

    def partition_of(self, group_id: str) -> int:
        """Return the partition of the offsets topic whose leader coordinates the group."""
        topic = self._topics.get(OFFSETS_TOPIC)
        if topic is None:
            return partition_for(group_id, self._config[settings.OFFSETS_TOPIC_NUM_PARTITIONS])
        return partition_for(group_id, len(topic.partitions))

    def shard_of(self, group_id: str) -> LoadedShard:
        """Return where the group is, or raise what its members should do instead of asking us."""
        return self._shards.at(self.partition_of(group_id))

    def shard_at(self, index: int) -> LoadedShard:
        """Return what a partition of the offsets topic holds, or raise likewise."""
        return self._shards.at(index)

    def shards(self) -> Iterator[LoadedShard]:
        """Return every loaded shard."""
        return iter(self._shards)

    @property
    def is_loading(self) -> bool:
        """Whether some groups are not there yet."""
        return self._shards.is_loading

    async def until_loaded(self) -> None:
        """Wait for the partitions that load now."""
        await self._shards.until_loaded()

    # Leadership -----------------------------------------------------------------------------------------------------

    def lead(self, partition: Partition) -> None:
        """Load the groups of a partition of the offsets topic that this broker leads now."""
        self._shards.lead(partition)

    def resign(self, index: int) -> None:
        """Let go of the groups of a partition that this broker no longer leads."""
        self._shards.resign(index)

    def close(self) -> None:
        """Let go of everything: this broker stops."""
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
        self._shards.close()

    async def _load(self, partition: Partition) -> tuple[LoadedShard, int]:
        core = GroupShard(group_settings(self._config, partition), self._group_topics, self._timings)
        with partition.pinned():
            count = await load(
                partition.log,
                core,
                chunk_bytes=self._config[settings.OFFSETS_LOAD_BUFFER_SIZE],
                now_ms=lambda: int(self._loop.time() * 1000),
            )
        journal = Journal(
            partition,
            loop=self._loop,
            appends=self._appends,
            wall_ms=self._wall_ms,
            settings=JournalSettings(
                linger_ms=self._config[settings.GROUP_COORDINATOR_APPEND_LINGER_MS],
                commit_timeout_ms=self._config[settings.OFFSETS_COMMIT_TIMEOUT_MS],
                codec=Codec(self._config[settings.OFFSETS_TOPIC_COMPRESSION_CODEC]),
            ),
            on_failure=partial(self._shards.write_failed, partition),
        )
        shard = LoadedShard(
            core, journal, loop=self._loop, wall_ms=self._wall_ms, new_id=self._new_id, metrics=self._metrics
        )
        return shard, count

    # Upkeep ---------------------------------------------------------------------------------------------------------

    def topic_changed(self, name: str) -> None:
        """Take note of a topic that came, grew or went; what was committed for one that is gone goes too."""
        if name in self._topics:
            return
        for shard in self.shards():
            shard.write(deletion_of_topics(shard.core, [name]))

    def _expire_later(self) -> None:
        delay_ms = self._config[settings.OFFSETS_RETENTION_CHECK_INTERVAL_MS]
        self._expiry_timer = self._loop.call_later(delay_ms / 1000, self._expire)

    def _expire(self) -> None:
        for shard in self.shards():
            shard.expire_offsets()
        self._expire_later()

    def watch(self, registry: Registry) -> None:
        """Let the metrics ask us how many groups there are."""
        registry.ask(declared.GROUPS, self._count_groups)

    def _count_groups(self) -> list[Sample]:
        counts: dict[str, int] = {}
        for shard in self.shards():
            for group in shard.core.groups.values():
                counts[group.state.value] = counts.get(group.state.value, 0) + 1
        return [((state,), count) for state, count in counts.items()]


def group_settings(config: BrokerConfig, partition: Partition) -> GroupSettings:
    """Return the settings that the core of a partition's groups needs."""
    return GroupSettings(
        min_session_timeout_ms=config[settings.GROUP_MIN_SESSION_TIMEOUT_MS],
        max_session_timeout_ms=config[settings.GROUP_MAX_SESSION_TIMEOUT_MS],
        initial_rebalance_delay_ms=config[settings.GROUP_INITIAL_REBALANCE_DELAY_MS],
        max_group_size=config[settings.GROUP_MAX_SIZE],
        max_record_bytes=partition.log.config.max_message_bytes,
        offset_metadata_max_bytes=config[settings.OFFSET_METADATA_MAX_BYTES],
        offsets_retention_ms=config[settings.OFFSETS_RETENTION_MINUTES] * 60_000,
        consumer_timing=ConsumerTiming(
            session_timeout_ms=config[settings.GROUP_CONSUMER_SESSION_TIMEOUT_MS],
            heartbeat_interval_ms=config[settings.GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS],
        ),
        consumer_max_size=config[settings.GROUP_CONSUMER_MAX_SIZE],
        consumer_assignors=config[settings.GROUP_CONSUMER_ASSIGNORS],
        migration_policy=MigrationPolicy(config[settings.GROUP_CONSUMER_MIGRATION_POLICY]),
    )
