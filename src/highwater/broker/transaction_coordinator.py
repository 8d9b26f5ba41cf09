"""Which transactional ids this broker coordinates: those of the transaction topic's partitions that it leads."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from highwater.broker.journal import Journal, JournalSettings
from highwater.broker.shards import Shards
from highwater.broker.topics import TRANSACTIONS_TOPIC
from highwater.broker.transaction_loading import load
from highwater.broker.transaction_shard import LoadedTransactions
from highwater.config.settings import transactions as settings
from highwater.metrics import declared
from highwater.model.coordinator_partition import partition_for
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import NO_BROKER
from highwater.transactions.shard import TransactionSettings, TransactionShard
from highwater.transactions.states import State

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle
    from collections.abc import Callable, Iterator

    from highwater.broker.appends import Appends
    from highwater.broker.deleted_partitions import DeletedPartitions
    from highwater.broker.marker_sender import Writer
    from highwater.broker.partition import Partition
    from highwater.broker.topics import Topics
    from highwater.broker.transaction_metrics import TransactionMetrics
    from highwater.config.broker_config import BrokerConfig
    from highwater.metrics.registry import Registry, Sample
    from highwater.model.ids import BrokerId


class TransactionCoordinator:
    """The shards of the partitions that we lead, each loading or loaded."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        config: BrokerConfig,
        *,
        appends: Appends,
        topics: Topics,
        markers: Writer,
        deletions: DeletedPartitions,
        wall_ms: Callable[[], int],
        metrics: TransactionMetrics,
    ) -> None:
        self._loop = loop
        self._config = config
        self._appends = appends
        self._topics = topics
        self._markers = markers
        self._deletions = deletions
        self._wall_ms = wall_ms
        self._metrics = metrics
        self._shards = Shards(loop, self._load)
        self._topics_known = asyncio.Event()
        self._timers: dict[str, TimerHandle] = {}
        self._look_for_timeouts()
        self._look_for_expired()

    # Finding a transaction ------------------------------------------------------------------------------------------

    def partition_of(self, transactional_id: str) -> int:
        """Return the partition of the transaction topic whose leader coordinates the id."""
        topic = self._topics.get(TRANSACTIONS_TOPIC)
        if topic is None:
            return partition_for(transactional_id, self._config[settings.TRANSACTION_STATE_LOG_NUM_PARTITIONS])
        return partition_for(transactional_id, len(topic.partitions))

    def shard_of(self, transactional_id: str) -> LoadedTransactions:
        """Return where the id is, or raise what its producer should do instead of asking us."""
        if not transactional_id:
            raise KafkaError("a transactional id must not be empty", code=ErrorCode.INVALID_REQUEST)
        return self._shards.at(self.partition_of(transactional_id))

    def leader_for(self, transactional_id: str) -> BrokerId:
        """Return which broker coordinates the id as far as this one knows; -1 while nobody does."""
        topic = self._topics.get(TRANSACTIONS_TOPIC)
        return NO_BROKER if topic is None else topic.partitions[self.partition_of(transactional_id)].leader

    def shards(self) -> Iterator[LoadedTransactions]:
        """Return every loaded shard."""
        return iter(self._shards)

    @property
    def is_loading(self) -> bool:
        """Whether some transactions are not there yet."""
        return self._shards.is_loading

    async def until_loaded(self) -> None:
        """Wait for the partitions that load now."""
        await self._shards.until_loaded()

    def topics_are_known(self) -> None:
        """Go to work: we have been told of the cluster's topics."""
        self._topics_known.set()

    # Leadership -----------------------------------------------------------------------------------------------------

    def lead(self, partition: Partition) -> None:
        """Load the transactions of a partition of the transaction topic that this broker leads now."""
        self._shards.lead(partition)

    def resign(self, index: int) -> None:
        """Let go of the transactions of a partition that this broker no longer leads."""
        self._shards.resign(index)

    def close(self) -> None:
        """Let go of everything: this broker stops."""
        for timer in self._timers.values():
            timer.cancel()
        self._shards.close()
        self._deletions.close()

    async def _load(self, partition: Partition) -> tuple[LoadedTransactions, int]:
        core = TransactionShard(
            TransactionSettings(
                max_timeout_ms=self._config[settings.TRANSACTION_MAX_TIMEOUT_MS],
                id_expiration_ms=self._config[settings.TRANSACTIONAL_ID_EXPIRATION_MS],
                allows_two_phases=self._config[settings.TRANSACTION_TWO_PHASE_COMMIT_ENABLE],
            )
        )
        # Decided transactions complete as soon as they are loaded: we should know by then where their partitions are.
        await self._topics_known.wait()
        chunk_bytes = self._config[settings.TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE]
        with partition.pinned():
            count = await load(partition.log, core, chunk_bytes=chunk_bytes)
        journal = Journal(
            partition,
            loop=self._loop,
            appends=self._appends,
            wall_ms=self._wall_ms,
            settings=JournalSettings(),
            on_failure=partial(self._shards.write_failed, partition),
        )
        shard = LoadedTransactions(
            core,
            journal,
            loop=self._loop,
            wall_ms=self._wall_ms,
            markers=self._markers,
            deletions=self._deletions,
            metrics=self._metrics,
        )
        return shard, count

    # Upkeep ---------------------------------------------------------------------------------------------------------

    def _look_for_timeouts(self) -> None:
        for shard in self.shards():
            shard.abort_timed_out()
        delay_ms = self._config[settings.TRANSACTION_ABORT_TIMED_OUT_CLEANUP_INTERVAL_MS]
        self._timers["timeouts"] = self._loop.call_later(delay_ms / 1000, self._look_for_timeouts)

    def _look_for_expired(self) -> None:
        for shard in self.shards():
            shard.forget_expired()
        delay_ms = self._config[settings.TRANSACTION_REMOVE_EXPIRED_CLEANUP_INTERVAL_MS]
        self._timers["expired"] = self._loop.call_later(delay_ms / 1000, self._look_for_expired)

    def watch(self, registry: Registry) -> None:
        """Let the metrics ask us how many transactional ids there are, and which of them wait for partitions."""
        registry.ask(declared.TRANSACTIONS, self._count)
        registry.ask_one(declared.TRANSACTION_MARKERS_LEFT, lambda: sum(shard.markers_left for shard in self.shards()))

    def _count(self) -> list[Sample]:
        counts = {state.label: 0 for state in State}
        for shard in self.shards():
            for transaction in shard.core.transactions.values():
                counts[transaction.state.label] += 1
        return [((state,), count) for state, count in counts.items()]
