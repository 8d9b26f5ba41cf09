"""The partition replicas on this broker's disks: opened, led, followed and deleted on demand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from highwater.broker.log_configs import log_config
from highwater.broker.log_dir_moves import LogDirMoves
from highwater.broker.partition import Partition
from highwater.config.settings import replication, transactions
from highwater.model.errors import StorageError
from highwater.model.ids import NO_BROKER, Offset
from highwater.model.log_events import EventLog

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable
    from concurrent.futures import Executor

    from highwater.broker.appends import Appends
    from highwater.broker.log_syncer import LogSyncer
    from highwater.broker.partition_partners import IsrKeeper
    from highwater.broker.partition_role import PartitionRole
    from highwater.broker.partitions import Partitions
    from highwater.broker.recompression import Recompression
    from highwater.broker.replication_throttles import ReplicationThrottles
    from highwater.config.broker_config import BrokerConfig
    from highwater.config.topic_settings import TopicSettings
    from highwater.model.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
    from highwater.storage.files import File
    from highwater.storage.log import Log
    from highwater.storage.log_config import LogConfig
    from highwater.storage.log_dir import LogDir

events = EventLog("broker")


class Fetchers(Protocol):
    """Who fetches for followers."""

    def follow(self, partition: Partition) -> None:
        """Fetch from the partition's leader, as it is now."""

    def leave(self, name: TopicPartition) -> None:
        """Fetch for this partition no longer."""


class Replicas:
    """Owns the log dirs. A dir that fails takes its own partitions offline, and no others."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        executor: Executor,
        config: BrokerConfig,
        *,
        log_dirs: list[LogDir],
        partitions: Partitions,
        appends: Appends,
        syncer: LogSyncer,
        keeper: IsrKeeper,
        fetchers: Fetchers,
        throttles: ReplicationThrottles,
        recompression: Recompression,
        now_ms: Callable[[], int],
    ) -> None:
        self._loop = loop
        self._executor = executor
        self._config = config
        self._partitions = partitions
        self._appends = appends
        self._syncer = syncer
        self._keeper = keeper
        self._fetchers = fetchers
        self._throttles = throttles
        self._recompression = recompression
        self._now_ms = now_ms
        self.log_dirs = log_dirs
        self.moves = LogDirMoves(loop, executor, config, log_dirs=log_dirs, partitions=partitions, now_ms=now_ms)

    # A broker that is alone -----------------------------------------------------------------------------------------

    def make(
        self,
        name: TopicPartition,
        *,
        topic_id: TopicId,
        leader_epoch: LeaderEpoch,
        replicas: tuple[BrokerId, ...],
        settings: TopicSettings,
        is_new: bool,
    ) -> Partition | None:
        """Lead a partition of which this broker has the only replica; None if its disk does not let us."""
        try:
            partition = self._opened(name, topic_id, settings, is_new=is_new)
        except StorageError:
            return None
        partition.lead(leader_epoch, replicas=replicas, isr=replicas, isr_version=0)
        self._partitions.role_changed(partition)
        return partition

    # What the controller of a cluster wants -------------------------------------------------------------------------

    def become_leader(self, name: TopicPartition, role: PartitionRole, settings: TopicSettings) -> None:
        """Lead a partition from `role.leader_epoch` on, or learn who is in sync if we lead it already.

        Raises StorageError when its log cannot be used. What waits in a partition that we keep leading goes on
        waiting.
        """
        partition = self._opened(name, role.topic_id, settings, is_new=role.is_new)
        self._fetchers.leave(name)
        partition.lead(role.leader_epoch, replicas=role.replicas, isr=role.isr, isr_version=role.state_version)
        self._partitions.role_changed(partition)

    def become_follower(
        self, name: TopicPartition, role: PartitionRole, settings: TopicSettings, *, fetches: bool = True
    ) -> None:
        """Follow `role.leader` from `role.leader_epoch` on; with NO_BROKER, wait. Raises StorageError."""
        was_open = self.is_served(name)
        partition = self._opened(name, role.topic_id, settings, is_new=role.is_new)
        if not was_open and not self.log_dir_of(partition.log).was_stopped_cleanly:
            partition.doubt_watermark()
        partition.follow(role.leader, role.leader_epoch, replicas=role.replicas)
        self._partitions.role_changed(partition)
        if role.leader != NO_BROKER and fetches:
            self._fetchers.follow(partition)
        else:
            self._fetchers.leave(name)

    def stop_replica(self, name: TopicPartition, *, delete: bool) -> None:
        """Neither lead nor follow a partition any more, and delete its data if asked to."""
        if delete:
            self.drop(name)
            return
        partition = self._take_out(name)
        if partition is not None:
            flush = partition.log.close()
            self._loop.run_in_executor(self._executor, flush.run)

    def fail(self, partition: Partition, reason: str) -> None:
        """Serve a partition no longer, because its disk does not obey."""
        events.error("partition_offline", partition=partition.name, reason=reason)
        self._fetchers.leave(partition.name)
        self.moves.cancel(partition.name)
        self._recompression.forget(partition.name)
        partition.close()
        self._partitions.take_offline(partition.name, reason)

    def take_offline(self, log_dir: LogDir) -> None:
        """Serve nothing of a log dir whose disk has failed."""
        for partition in self._partitions:
            if partition.log.directory.parent == log_dir.path:
                self.fail(partition, f"{partition.name} is in log dir {log_dir.path}, whose disk failed")

    def is_served(self, name: TopicPartition) -> bool:
        """Return whether we lead or follow a partition."""
        return self._partitions.get(*name) is not None

    def reading_failed(self, file: File, error: OSError) -> None:
        """Take note that a segment cannot be read that is being sent to somebody."""
        for partition in self._partitions:
            if any(segment.is_in(file) for segment in partition.log.segments):
                partition.log.health.noticed(error)

    # Coming and going -----------------------------------------------------------------------------------------------

    def _opened(self, name: TopicPartition, topic_id: TopicId, settings: TopicSettings, *, is_new: bool) -> Partition:
        """Return the partition, from its log or from a new one in the log dir that holds the fewest."""
        there = self._partitions.get(*name)
        if there is not None:
            return there
        try:
            log = self._open_log(name, topic_id, self.log_config(settings), is_new=is_new)
        except StorageError as error:
            events.error("partition_offline", partition=name, reason=str(error))
            self._partitions.take_offline(name, str(error))
            raise
        partition = Partition(
            name,
            topic_id=topic_id,
            log=log,
            high_watermark=Offset(self.log_dir_of(log).high_watermark(name)),
            min_insync_replicas=settings[replication.MIN_INSYNC_REPLICAS],
            appends=self._appends,
            syncer=self._syncer,
            keeper=self._keeper,
        )
        self._throttles.name(partition, settings)
        self._recompression.follow(partition)
        self._partitions.add(partition)
        self.moves.resume(partition)
        return partition

    def _take_out(self, name: TopicPartition) -> Partition | None:
        self._fetchers.leave(name)
        self.moves.cancel(name)
        self._recompression.forget(name)
        partition = self._partitions.remove(name)
        if partition is not None:
            partition.close()
        return partition

    def drop(self, name: TopicPartition) -> None:
        """Serve a partition no longer, and delete its data in the background, whether or not it was served."""
        self._take_out(name)
        log_dir = next((log_dir for log_dir in self.log_dirs if log_dir.holds(name) and log_dir.is_online), None)
        if log_dir is not None:
            self._remove(log_dir, name)

    def held(self) -> list[TopicPartition]:
        """Return what lies on our disks, served or not."""
        return sorted(
            name
            for log_dir in self.log_dirs
            if log_dir.is_readable and log_dir.is_online
            for name in log_dir.partitions
        )

    def drop_stray(self, name: TopicPartition, topic_id: TopicId) -> None:
        """Delete what a partition left here when it moved away and we were not there; not what may be another's."""
        for log_dir in self.log_dirs:
            if log_dir.holds(name) and log_dir.topic_of(name) == topic_id:
                events.warning("stray_replica_deleted", partition=name, log_dir=log_dir.path)
                self._take_out(name)
                self._remove(log_dir, name)

    def _remove(self, log_dir: LogDir, name: TopicPartition) -> None:
        folder = log_dir.detach(name)
        self._loop.run_in_executor(self._executor, log_dir.remove_detached, folder)

    def reconfigure(self, name: TopicPartition, settings: TopicSettings) -> None:
        """Let a partition's log follow its topic's new settings."""
        partition = self._partitions.get(*name)
        if partition is not None:
            partition.log.config = self.log_config(settings)
            partition.min_insync_replicas = settings[replication.MIN_INSYNC_REPLICAS]
            self._throttles.name(partition, settings)
            self._recompression.follow(partition)

    def log_config(self, settings: TopicSettings) -> LogConfig:
        """Return the settings of one log."""
        return log_config(settings, producer_id_expiration_ms=self._config[transactions.PRODUCER_ID_EXPIRATION_MS])

    def log_dir_of(self, log: Log) -> LogDir:
        """Return the log dir that a log lies in."""
        return next(log_dir for log_dir in self.log_dirs if log_dir.path == log.directory.parent)

    def _open_log(self, name: TopicPartition, topic_id: TopicId, config: LogConfig, *, is_new: bool) -> Log:
        holder = next((log_dir for log_dir in self.log_dirs if log_dir.holds(name)), None)
        if holder is not None and holder.is_online and holder.topic_of(name) not in {None, topic_id}:
            events.warning("log_of_another_topic", partition=name, kept_in=holder.keep_as_stray(name))
            holder = None
        place = holder or self._place_for(name, is_new=is_new)
        log = place.open_log(name, config, now_ms=self._now_ms(), topic_id=topic_id)
        for note in log.report.notes:
            events.warning("log_repaired", partition=name, what=note)
        return log

    def _place_for(self, name: TopicPartition, *, is_new: bool) -> LogDir:
        """Return the log dir for a partition that is in none; but it may be in one that we could not read."""
        unread = next((log_dir for log_dir in self.log_dirs if not log_dir.is_readable), None)
        if unread is not None and not is_new:
            raise StorageError(f"{name} may be in log dir {unread.path}, whose disk failed: {unread.health.failure}")
        preferred = self.moves.take_preference(name)
        if preferred is not None:
            return preferred
        usable = [log_dir for log_dir in self.log_dirs if log_dir.is_online]
        if not usable:
            raise StorageError(f"there is no log dir left for {name}")
        # One with little room only if all have.
        return min(usable, key=lambda log_dir: (log_dir.health.refusal is not None, log_dir.partition_count))
