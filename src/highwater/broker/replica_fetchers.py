"""Which fetcher fetches for which partition: a few for each leader, each partition always by the same one."""

from __future__ import annotations

from typing import TYPE_CHECKING
from zlib import crc32

from highwater.broker.replica_fetcher import FetcherSettings, ReplicaFetcher
from highwater.config.settings import replication as settings
from highwater.model.errors import StorageError

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task
    from collections.abc import Callable
    from concurrent.futures import Executor

    from highwater.broker.cluster import Cluster
    from highwater.broker.partition import Partition
    from highwater.broker.replicas import Replicas
    from highwater.broker.replication_throttles import ReplicationThrottles
    from highwater.config.broker_config import BrokerConfig
    from highwater.coordination.records import ListenerAddress
    from highwater.model.ids import BrokerId, TopicPartition


class ReplicaFetchers:
    """All that this broker follows. A fetcher lives as long as it has a partition to fetch for."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        executor: Executor,
        broker_id: BrokerId,
        config: BrokerConfig,
        *,
        cluster: Cluster,
        throttles: ReplicationThrottles,
        now_ms: Callable[[], int],
    ) -> None:
        self._loop = loop
        self._executor = executor
        self._me = broker_id
        self._listener = config.inter_broker_endpoint.name
        self._cluster = cluster
        self._throttles = throttles
        self._now_ms = now_ms
        self._per_leader = config[settings.NUM_REPLICA_FETCHERS]
        self._settings = FetcherSettings(
            min_bytes=config[settings.REPLICA_FETCH_MIN_BYTES],
            max_wait_ms=config[settings.REPLICA_FETCH_WAIT_MAX_MS],
            partition_max_bytes=config[settings.REPLICA_FETCH_MAX_BYTES],
            response_max_bytes=config[settings.REPLICA_FETCH_RESPONSE_MAX_BYTES],
            longest_pause_s=config[settings.REPLICA_FETCH_BACKOFF_MS] / 1000,
            timeout_s=config[settings.REPLICA_SOCKET_TIMEOUT_MS] / 1000,
        )
        self._fetchers: dict[tuple[BrokerId, int], ReplicaFetcher] = {}
        self._tasks: dict[tuple[BrokerId, int], Task[None]] = {}
        self._assigned: dict[TopicPartition, tuple[tuple[BrokerId, int], Partition]] = {}
        self._syncing: dict[TopicPartition, Task[None]] = {}
        """What is not fetched yet, because what is there has to be on the disk first."""
        self._replicas: Replicas | None = None

    def serve(self, replicas: Replicas) -> None:
        """Know whom to tell about a disk that fails."""
        self._replicas = replicas

    def follow(self, partition: Partition) -> None:
        """Fetch from the partition's leader, as it is now.

        The first fetch tells it that we have all that is in our log. Who has led may not have synced that yet; if a
        sync is promised, it comes first.
        """
        self.leave(partition.name)
        if partition.wants_sync:
            self._syncing[partition.name] = self._loop.create_task(self._sync_and_follow(partition))
        else:
            self._fetch_for(partition)

    async def _sync_and_follow(self, partition: Partition) -> None:
        await self.sync(partition)
        if self._syncing.pop(partition.name, None) is not None:  # otherwise its disk has failed
            self._fetch_for(partition)

    def _fetch_for(self, partition: Partition) -> None:
        key = partition.leader, crc32(str(partition.name).encode()) % self._per_leader
        fetcher = self._fetchers.get(key) or self._start(key)
        fetcher.add(partition)
        self._assigned[partition.name] = key, partition

    def leave(self, name: TopicPartition) -> None:
        """Fetch for this partition no longer."""
        syncing = self._syncing.pop(name, None)
        if syncing is not None:
            syncing.cancel()
        key, partition = self._assigned.pop(name, (None, None))
        if key is None or partition is None:
            return
        fetcher = self._fetchers[key]
        fetcher.remove(partition)
        if not len(fetcher):
            self._end(key)

    def close(self) -> None:
        """Fetch nothing any more."""
        for syncing in self._syncing.values():
            syncing.cancel()
        self._syncing.clear()
        self._assigned.clear()
        for key in list(self._fetchers):
            self._end(key)

    def _start(self, key: tuple[BrokerId, int]) -> ReplicaFetcher:
        leader, number = key
        fetcher = self._fetchers[key] = ReplicaFetcher(
            self._me,
            leader,
            self._settings,
            leaders=self,
            disk=self,
            throttles=self._throttles,
            now_ms=self._now_ms,
            client_id=f"broker-{self._me}-fetcher-{number}",
        )
        self._tasks[key] = self._loop.create_task(fetcher.run())
        return fetcher

    def _end(self, key: tuple[BrokerId, int]) -> None:
        self._tasks.pop(key).cancel()
        self._fetchers.pop(key).close()

    # Leaders, for fetchers ------------------------------------------------------------------------------------------

    def address_of(self, broker: BrokerId) -> ListenerAddress | None:
        """Return where other brokers reach this one, if it is alive."""
        live = self._cluster.brokers.get(broker)
        if live is None:
            return None
        return live.listeners.get(self._listener) or next(iter(live.listeners.values()), None)

    def seems_gone(self, broker: BrokerId, gone: bool, /) -> None:  # noqa: FBT001 - a fact, not a switch
        """Tell clients no longer that a broker leads that hung up and does not listen; or tell them again."""
        if gone:
            self._cluster.seem_gone.add(broker)
        else:
            self._cluster.seem_gone.discard(broker)

    # The disk, for fetchers -----------------------------------------------------------------------------------------

    def fail(self, partition: Partition, reason: str) -> None:
        """Serve a partition no longer whose disk does not obey."""
        assert self._replicas is not None
        self._replicas.fail(partition, reason)

    async def sync(self, partition: Partition) -> None:
        """Return when what is written is on the disk; a disk that fails takes the partition with it."""
        log = partition.log
        flush = log.start_flush()
        try:
            await self._loop.run_in_executor(self._executor, flush.run)
        except StorageError as error:
            if partition.log is log:
                self.fail(partition, f"fsync failed: {error}")
        finally:
            log.finish_flush(flush)
        if partition.log is not log and partition.wants_sync:  # it has moved to another log dir
            await self.sync(partition)
