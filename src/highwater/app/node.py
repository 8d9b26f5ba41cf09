"""The composition root: the one place that builds a broker out of its parts, starts them in order and stops them."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from highwater.app.node_metrics import connect
from highwater.app.world import World
from highwater.broker.appends import Appends
from highwater.broker.broker import Broker
from highwater.broker.changes import Changes
from highwater.broker.cleaner import Cleaner
from highwater.broker.cluster import find_cluster, join_alone
from highwater.broker.config_admin import ConfigAdmin
from highwater.broker.deleted_partitions import DeletedPartitions
from highwater.broker.disk_watch import DiskWatch
from highwater.broker.fetch_sessions import FetchSessions
from highwater.broker.group_coordinator import GroupCoordinator
from highwater.broker.group_metrics import GroupMetrics
from highwater.broker.isr_keeper import IsrKeeper
from highwater.broker.log_recovery import recover_logs
from highwater.broker.log_syncer import LogSyncer
from highwater.broker.marker_writer import MarkerWriter
from highwater.broker.partition_admin import PartitionAdmin
from highwater.broker.partitions import Partitions
from highwater.broker.producer_ids import ProducerIds
from highwater.broker.read_replica import RACK_AWARE
from highwater.broker.recompression import Recompression
from highwater.broker.replica_fetchers import ReplicaFetchers
from highwater.broker.replicas import Replicas
from highwater.broker.replication_throttles import ReplicationThrottles
from highwater.broker.serve_alone import ServeAlone
from highwater.broker.topic_admin import TopicAdmin
from highwater.broker.topic_store import TopicStore
from highwater.broker.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Topics
from highwater.broker.transaction_check import TransactionCheck
from highwater.broker.transaction_coordinator import TransactionCoordinator
from highwater.broker.transaction_gate import TransactionGate
from highwater.broker.transaction_metrics import TransactionMetrics
from highwater.broker.upkeep import Upkeep
from highwater.compiled.loading import in_use
from highwater.config.settings import network, node, replication
from highwater.coordination.embedded import FILE_NAME, EmbeddedCoordination
from highwater.coordination.port import StoreFailed
from highwater.metrics.declared import (
    COMPACTION_ROUNDS,
    COMPILED,
    FULL_LOG_DIRS,
    ISR_EXPANSIONS,
    ISR_SHRINKS,
    LOG_FLUSHES,
    OFFLINE_LOG_DIRS,
    RECOMPRESSED_BATCHES,
    UNCLEANABLE_PARTITIONS,
)
from highwater.metrics.http import MetricsServer
from highwater.metrics.process import LoopLag, watch_process
from highwater.metrics.registry import Registry
from highwater.model.errors import KafkaError, StorageError
from highwater.model.ids import BrokerId
from highwater.model.log_events import EventLog
from highwater.security.authorizer import AllowAll
from highwater.server.server import Server
from highwater.storage import log_dir_owner
from highwater.storage.log_dir import LogDir
from highwater.storage.log_dir_owner import Owner
from highwater.storage.settled_moves import settle_moves

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from highwater.app.member import Member
    from highwater.broker.cluster import Cluster
    from highwater.config.broker_config import BrokerConfig
    from highwater.config.listeners import Endpoint
    from highwater.coordination.port import Coordination
    from highwater.storage.flush import Flush

events = EventLog("app")


class CannotStart(Exception):
    """Why the broker does not start, in one line that says what to do."""


class Node:
    """One broker process. Everything is built by `start`, in an order in which nothing is touched before it is safe."""

    def __init__(self, loop: AbstractEventLoop, config: BrokerConfig, world: World | None = None) -> None:
        self._loop = loop
        self._config = config
        self._world = world = world if world is not None else World()
        self._executor = world.disk_threads
        self._appends = Appends(loop)
        self._recompression = Recompression(loop, world.codec_threads, self._appends)
        self._registry = Registry()
        watch_process(self._registry)
        self._registry.ask_one(COMPILED, lambda: int(in_use()))
        self._loop_lag = LoopLag(self._registry, loop)
        self._metrics_server = MetricsServer(self._registry)
        self._server = Server(loop, config, self._registry, world.new_acceptor)
        self._files = world.files
        self._log_dirs: list[LogDir] = []
        self._first_to_stop = ExitStack()
        self.on_all_log_dirs_failed: Callable[[], None] = lambda: None
        """Called when there is no disk left to serve from."""
        self.partitions = Partitions()
        self._changes = Changes()
        self._store: Coordination | None = None
        self._member: Member | None = None
        self._upkeep: Upkeep | None = None
        self._cleaner: Cleaner | None = None
        self._groups: GroupCoordinator | None = None
        self._transactions: TransactionCoordinator | None = None
        self._isr_keeper: IsrKeeper | None = None
        self._fetchers: ReplicaFetchers | None = None
        self._endpoints: tuple[Endpoint, ...] = ()
        self.broker: Broker | None = None
        """What handlers work with, once it is built."""
        self.broker_id = BrokerId(config[node.BROKER_ID])

    @property
    def addresses(self) -> str:
        """Where clients connect, for the line that says so."""
        return ",".join(str(endpoint.advertised) for endpoint in self._endpoints)

    async def start(self) -> None:
        """Take the addresses, lock the data, load it, serve. Raises CannotStart with nothing changed on the disk."""
        self._endpoints = self._bind()
        self._log_dirs = self._lock_log_dirs()
        self._store = await self._open_store(self._owning_cluster())
        await recover_logs(self._log_dirs, config=self._config, now_ms=self._world.now_ms)
        try:
            self.broker = broker = await self._build(self._store)
            for log_dir in self._log_dirs:
                log_dir.serving()
        except KafkaError as error:
            raise CannotStart(str(error)) from error
        assert self._upkeep is not None
        self._upkeep.start()
        assert self._cleaner is not None
        self._cleaner.start()
        assert self._isr_keeper is not None
        self._isr_keeper.start()
        connect(self._registry, broker)
        await self._start_metrics()
        self._server.start(broker)
        if self._member is not None:
            # The others speak to us as soon as we are a member, so that we join when we can answer.
            try:
                await self._member.join(broker.config_admin)
            except KafkaError as error:
                raise CannotStart(str(error)) from error
        broker.transactions.topics_are_known()

    async def stop(self) -> None:
        """Stop serving, then leave the data such that the next start can trust it."""
        if self._member is not None:
            await self._member.leave()
        self._server.stop()
        self._first_to_stop.close()
        self._recompression.close()
        self._loop_lag.stop()
        await self._metrics_server.close()
        await self._changes.finish()
        if self._transactions is not None:
            self._transactions.close()
        if self._groups is not None:
            self._groups.close()
        if self._fetchers is not None:
            self._fetchers.close()
        if self._isr_keeper is not None:
            self._isr_keeper.stop()
        if self._cleaner is not None:
            await self._cleaner.stop()
        if self._upkeep is not None:
            self._upkeep.stop()
            await self._close_logs(self._upkeep)
        else:
            for log_dir in self._log_dirs:
                log_dir.close(clean=log_dir.was_stopped_cleanly)
        if self._store is not None:
            await self._store.close()
        self._world.codec_threads.shutdown(wait=True, cancel_futures=True)
        self._executor.shutdown(wait=True)

    async def _close_logs(self, upkeep: Upkeep) -> None:
        closed_well = {log_dir.path: True for log_dir in self._log_dirs}
        flushes: dict[Path, list[Flush]] = {log_dir.path: [] for log_dir in self._log_dirs}
        for partition in self.partitions:
            try:
                flushes[partition.log.directory.parent].append(partition.log.close())
            except StorageError as error:
                closed_well[partition.log.directory.parent] = False
                events.error("log_not_closed", partition=partition.name, reason=str(error))
        await upkeep.checkpoint_all()
        for log_dir in self._log_dirs:
            try:
                log_dir.close(clean=closed_well[log_dir.path], flushes=flushes[log_dir.path])
            except StorageError as error:
                events.error("log_dir_not_closed", log_dir=str(log_dir.path), reason=str(error))

    async def _start_metrics(self) -> None:
        address = self._config[node.METRICS_LISTENER]
        if address is None:
            return
        try:
            await self._metrics_server.start(address.host, address.port)
        except OSError as error:
            raise CannotStart(f"cannot serve metrics on {address}: {error.strerror or error}") from error

    def _bind(self) -> tuple[Endpoint, ...]:
        for endpoint in self._config.endpoints:
            if endpoint.security_protocol != "PLAINTEXT":
                raise CannotStart(f"listener {endpoint.name} asks for {endpoint.security_protocol}: only PLAINTEXT yet")
        try:
            return self._server.bind(self._config.endpoints)
        except OSError as error:
            reason = f"cannot listen on {error.filename}: {error.strerror}; is another broker running?"
            raise CannotStart(reason) from error

    def _lock_log_dirs(self) -> list[LogDir]:
        log_dirs: list[LogDir] = []
        for text in self._config[node.LOG_DIRS]:
            try:
                log_dirs.append(LogDir.open(self._files, Path(text).absolute()))
            except StorageError as error:
                self._log_dirs = log_dirs
                raise CannotStart(str(error)) from error
        if not any(log_dir.is_online for log_dir in log_dirs):
            raise CannotStart(f"the disk of every log dir has failed: {log_dirs[0].health.failure}")
        for log_dir in log_dirs:
            for note in log_dir.notes:
                events.warning("checkpoint_damaged", log_dir=str(log_dir.path), what=note)
        for note in settle_moves(log_dirs):
            events.warning("move_settled", what=note)
        return log_dirs

    def _owning_cluster(self) -> str | None:
        try:
            return log_dir_owner.check_owner(self._files, self._folders, self.broker_id)
        except StorageError as error:
            raise CannotStart(str(error)) from error

    @property
    def _folders(self) -> list[Path]:
        return [log_dir.path for log_dir in self._log_dirs if log_dir.is_online]

    async def _open_store(self, owning_cluster: str | None) -> Coordination:
        try:
            if self._config[node.ZOOKEEPER_CONNECT] is not None:
                return await self._world.connect_to_cluster(self._config)
            path = self._log_dirs[0].path / FILE_NAME
            if owning_cluster is not None and not self._files.exists(path):
                raise CannotStart(
                    f"the log dirs hold the data of cluster {owning_cluster}, but its metadata {path} is gone"
                )
            return EmbeddedCoordination.open(path, self._executor)
        except StoreFailed as error:
            raise CannotStart(str(error)) from error

    def _watch_disks(self, replicas: Replicas) -> None:
        watch = DiskWatch(
            self._loop,
            self._executor,
            self._config,
            log_dirs=self._log_dirs,
            appends=self._appends,
            replicas=replicas,
            tell_controller=None if self._member is None else self._member.log_dir_failed,
            on_all_failed=self.on_all_log_dirs_failed,
        )
        self._registry.ask_one(OFFLINE_LOG_DIRS, lambda: watch.failed)
        self._registry.ask_one(FULL_LOG_DIRS, lambda: watch.refusing)
        watch.start()
        self._first_to_stop.callback(watch.stop)

    async def _find_cluster(self, store: Coordination) -> Cluster:
        if self._config[node.ZOOKEEPER_CONNECT] is not None:
            return await find_cluster(store, self.broker_id, self._world.random_bytes)
        return await join_alone(
            store,
            self.broker_id,
            self._endpoints,
            rack=self._config[node.BROKER_RACK],
            now_ms=self._world.now_ms(),
            random_bytes=self._world.random_bytes,
        )

    async def _build(self, store: Coordination) -> Broker:
        loop, config, partitions, changes = self._loop, self._config, self.partitions, self._changes
        now_ms, random_bytes = self._world.now_ms, self._world.random_bytes
        cluster = await self._find_cluster(store)
        log_dir_owner.claim(self._files, self._folders, Owner(self.broker_id, cluster.id))
        appends, recompression = self._appends, self._recompression
        syncer = LogSyncer(loop, self._executor)
        self._registry.ask_one(LOG_FLUSHES, lambda: syncer.flushes)
        self._isr_keeper = keeper = IsrKeeper(
            loop,
            self.broker_id,
            store,
            cluster=cluster,
            partitions=partitions,
            max_lag_ms=config[replication.REPLICA_LAG_TIME_MAX_MS],
            pushes_watermark=config[replication.REPLICA_SELECTOR_CLASS] == RACK_AWARE,
        )
        self._registry.ask_one(ISR_SHRINKS, lambda: keeper.shrinks)
        self._registry.ask_one(ISR_EXPANSIONS, lambda: keeper.expansions)
        throttles = ReplicationThrottles(self.broker_id, config, now_ms=lambda: loop.time() * 1000)
        self._fetchers = ReplicaFetchers(
            loop, self._executor, self.broker_id, config, cluster=cluster, throttles=throttles, now_ms=now_ms
        )
        self._registry.ask_one(RECOMPRESSED_BATCHES, lambda: recompression.batches)
        replicas = Replicas(
            loop,
            self._executor,
            config,
            log_dirs=self._log_dirs,
            partitions=partitions,
            appends=appends,
            syncer=syncer,
            keeper=self._isr_keeper,
            fetchers=self._fetchers,
            throttles=throttles,
            recompression=recompression,
            now_ms=now_ms,
        )
        self._fetchers.serve(replicas)
        topics = Topics()
        if config[node.ZOOKEEPER_CONNECT] is not None:
            from highwater.app.member import Member

            self._member = Member(
                loop,
                self.broker_id,
                config,
                self._endpoints,
                store=store,
                cluster=cluster,
                topics=topics,
                replicas=replicas,
                now_ms=now_ms,
            )
        member = self._member
        self._watch_disks(replicas)
        self._first_to_stop.callback(replicas.moves.close)
        topic_store = TopicStore(store, config) if member is None else TopicStore(store, config, member.driver.fence)
        alone = ServeAlone(self.broker_id, topics=topics, store=topic_store, replicas=replicas)
        config_admin = ConfigAdmin(
            self.broker_id,
            config,
            store=store,
            topics=topics,
            replicas=replicas,
            changes=changes,
            tells_others=member is not None,
        )
        topic_admin = TopicAdmin(
            config,
            cluster=cluster,
            topics=topics,
            store=topic_store,
            serving=alone if member is None else member.serving,
            changes=changes,
            random_bytes=random_bytes,
        )
        self._groups = groups = GroupCoordinator(
            loop,
            config,
            appends=appends,
            wall_ms=now_ms,
            new_id=lambda: str(uuid.UUID(bytes=random_bytes(16), version=4)),
            metrics=GroupMetrics(self._registry),
            topics=topics,
            cluster=cluster,
            timings=config_admin.groups.timings,
        )
        groups.watch(self._registry)
        partitions.tell(OFFSETS_TOPIC, groups)
        markers = MarkerWriter(partitions=partitions, groups=groups, appends=appends, wall_ms=now_ms)
        self._transactions = transactions = TransactionCoordinator(
            loop,
            config,
            appends=appends,
            topics=topics,
            markers=markers if member is None else member.route_markers(markers),
            deletions=DeletedPartitions(loop, topics, store),
            wall_ms=now_ms,
            metrics=TransactionMetrics(self._registry),
        )
        transactions.watch(self._registry)
        partitions.tell(TRANSACTIONS_TOPIC, transactions)
        if member is None:
            await config_admin.start()
            clean = all(log_dir.was_stopped_cleanly for log_dir in self._log_dirs)
            await alone.start(cluster.controller_epoch, was_stopped_cleanly=clean)
        self._upkeep = Upkeep(
            loop, self._executor, config, partitions=partitions, replicas=replicas, appends=appends, now_ms=now_ms
        )
        self._cleaner = cleaner = Cleaner(
            loop,
            self._executor,
            config,
            partitions=partitions,
            replicas=replicas,
            now_ms=now_ms,
            start_worker=self._world.start_compaction,
        )
        self._registry.ask_one(COMPACTION_ROUNDS, lambda: cleaner.rounds)
        self._registry.ask_one(UNCLEANABLE_PARTITIONS, lambda: len(cleaner.uncleanable))
        return Broker(
            id=self.broker_id,
            loop=loop,
            disk_threads=self._executor,
            now_ms=now_ms,
            config=config,
            metrics=self._registry,
            authorizer=AllowAll(),
            cluster=cluster,
            topics=topics,
            topic_admin=topic_admin,
            config_admin=config_admin,
            producer_ids=ProducerIds(store, self.broker_id),
            partitions=partitions,
            replicas=replicas,
            replication_throttles=throttles,
            appends=appends,
            recompression=recompression,
            fetch_sessions=FetchSessions(
                appends,
                max_sessions=config[network.MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS],
                new_id=lambda: int.from_bytes(random_bytes(4), "big") % (2**31 - 1) + 1,
                now=loop.time,
            ),
            groups=groups,
            transactions=transactions,
            transaction_gate=TransactionGate(
                loop,
                config,
                TransactionCheck(
                    loop,
                    transactions,
                    partitions=partitions,
                    elsewhere=None if member is None else member.coordinators,
                ),
                partitions,
            ),
            markers=markers,
            fetch_max_bytes=config[network.FETCH_MAX_BYTES],
            reads_from_followers=config[replication.REPLICA_SELECTOR_CLASS] == RACK_AWARE,
            partition_admin=PartitionAdmin(topics, None if member is None else member.driver),
            roles=None if member is None else member.roles,
            controller=None if member is None else member.driver,
        )
