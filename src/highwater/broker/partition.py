"""One partition that this broker leads or follows: its log, its high watermark, and who waits for either to move."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from highwater.model.errors import ErrorCode, KafkaError, StorageError
from highwater.model.ids import NO_BROKER, BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from highwater.protocol.records.batch import read_header
from highwater.replication.fencing import NO_EPOCH, check_epoch, check_replica_epoch
from highwater.replication.high_watermark import followers_high_watermark
from highwater.replication.leader import IsrProposal, LeaderState
from highwater.replication.truncation import EpochEnd, divergence, has_nothing_in_common, truncation_offset

if TYPE_CHECKING:
    from collections.abc import Iterator

    from highwater.broker.appends import Appends
    from highwater.broker.log_syncer import LogSyncer
    from highwater.broker.partition_partners import CommitWaiter, DataWaiter, IsrKeeper, Receipt
    from highwater.storage.file_region import FileRegion
    from highwater.storage.log import Log, Staged

EVERYTHING: Final = 2**31 - 1
"""Enough bytes to satisfy any waiting fetch."""
NEVER: Final = 2**63 - 1
"""Kafka's default of `flush.messages` and `flush.ms`: leave it to the operating system."""


class Partition:
    """One replica of a partition: the leader's, or a follower's.

    Offsets: the log end offset is the next offset to be given; what is below the high watermark is committed. Both only
    move forward while we lead. A partition with one replica has no `leadership`: there is nobody to ask about.
    """

    __slots__ = (
        "_appends",
        "_commit_waiters",
        "_ends_transactions",
        "_keeper",
        "_receipts",
        "_staged_bytes",
        "_sync_waiters",
        "_syncer",
        "followers_of_data",
        "high_watermark",
        "in_sync_replicas",
        "is_caught_up",
        "is_throttled_follower",
        "is_throttled_leader",
        "leader",
        "leader_epoch",
        "leadership",
        "leads",
        "log",
        "min_insync_replicas",
        "name",
        "pins",
        "replica_readers",
        "replicas",
        "topic_id",
    )

    def __init__(
        self,
        name: TopicPartition,
        *,
        topic_id: TopicId,
        log: Log,
        high_watermark: Offset,
        min_insync_replicas: int,
        appends: Appends,
        syncer: LogSyncer,
        keeper: IsrKeeper,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.log = log
        self.min_insync_replicas = min_insync_replicas
        self._appends = appends
        self._syncer = syncer
        self._keeper = keeper
        self.high_watermark = max(min(high_watermark, Offset(log.log_end_offset)), Offset(log.log_start_offset))
        self.leads = False
        self.leader: BrokerId = NO_BROKER
        self.leader_epoch: LeaderEpoch = NO_EPOCH
        self.leadership: LeaderState | None = None
        self.replicas: tuple[BrokerId, ...] = ()
        self.in_sync_replicas: tuple[BrokerId, ...] = ()
        self.is_throttled_leader = self.is_throttled_follower = False
        self.is_caught_up = False
        """As a follower: whether we had all that was committed when our leader last answered."""
        self.followers_of_data: dict[DataWaiter, None] = {}
        """Consumers that want to know what is committed."""
        self.replica_readers: dict[DataWaiter, None] = {}
        """Other replicas, which read what is not committed yet."""
        self.pins = 0
        """How many work on the files of the log right now: as long as one does, they stay where they are."""
        self._receipts: list[Receipt] = []
        self._staged_bytes = 0
        self._ends_transactions = False
        self._commit_waiters: deque[tuple[Offset, CommitWaiter]] = deque()
        self._sync_waiters: list[tuple[Offset, CommitWaiter]] = []

    # Leading and following ------------------------------------------------------------------------------------------

    def lead(
        self, epoch: LeaderEpoch, *, replicas: tuple[BrokerId, ...], isr: tuple[BrokerId, ...], isr_version: int
    ) -> None:
        """Lead from `epoch` on; or, if that is the epoch in which we lead, learn who holds it and who is in sync.

        The epoch begins where our log ends, and its history says so before anybody asks: a follower that has records of
        an epoch in between finds out where it parted from us.
        """
        keeper = self._keeper
        is_new_epoch = not self.leads or epoch != self.leader_epoch
        self.leads, self.leader, self.leader_epoch, self.replicas = True, keeper.broker_id, epoch, replicas
        if len(replicas) == 1:
            self.leadership = None
            if is_new_epoch:
                self.high_watermark = Offset(self.log.log_end_offset)
        elif is_new_epoch or self.leadership is None:
            self.log.leader_epochs.begin(epoch, self.log.log_end_offset)
            self.leadership = LeaderState(
                keeper.broker_id,
                epoch=epoch,
                replicas=replicas,
                isr=isr,
                isr_version=isr_version,
                end_offset=Offset(self.log.log_end_offset),
                max_lag_ms=keeper.max_lag_ms,
                now_ms=keeper.now_ms(),
            )
        else:
            self.leadership.replicas_changed(replicas)
            self.leadership.isr_committed(isr, isr_version)
        self._count_in_sync(isr if self.leadership is None else self.leadership.isr)
        if is_new_epoch:
            self._wake_readers()
        if self.wants_sync:  # We have followed until now, and were still at it; the next write may be long in coming.
            self._syncer.sync(self)
        self._advance_high_watermark(0)

    def follow(self, leader: BrokerId, epoch: LeaderEpoch, *, replicas: tuple[BrokerId, ...]) -> None:
        """Follow `leader` from `epoch` on. Whoever waits for us to commit something waits in vain, and is told."""
        self.leads, self.leader, self.leader_epoch, self.leadership = False, leader, epoch, None
        self.replicas, self.in_sync_replicas, self.is_caught_up = replicas, (), False
        self._refuse_waiters()
        self._wake_readers()

    def doubt_watermark(self) -> None:
        """Take nothing for committed until our leader says what is.

        A power cut may have brought back what had been cut off our log, and something else was committed in its place.
        """
        self.high_watermark = Offset(self.log.log_start_offset)

    def close(self) -> None:
        """Tell those who wait for this partition that it is gone; readers look again and find out."""
        self.leads, self.leadership = False, None
        self._refuse_waiters()
        self._wake_readers()

    def _refuse_waiters(self) -> None:
        waiting = [*self._commit_waiters, *self._sync_waiters]
        self._commit_waiters.clear()
        self._sync_waiters.clear()
        for _, waiter in waiting:
            waiter.refused(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _wake_readers(self) -> None:
        for reader in [*self.followers_of_data, *self.replica_readers]:
            reader.data_arrived(EVERYTHING)
        self._appends.finish()

    def isr_committed(self, proposal: IsrProposal, isr: tuple[BrokerId, ...], version: int) -> None:
        """Go on after the cluster has agreed upon in-sync replicas, if we still lead in the epoch that asked."""
        leadership = self.leadership
        if leadership is None or leadership.epoch != proposal.epoch:
            return
        leadership.isr_committed(isr, version)
        self._count_in_sync(leadership.isr)
        self._advance_high_watermark(0)
        self._grow_isr(leadership)
        self._appends.finish()

    def _count_in_sync(self, agreed: tuple[BrokerId, ...]) -> None:
        """Count who is in sync, of those that hold a replica: one that was taken away may have joined meanwhile."""
        self.in_sync_replicas = tuple(broker for broker in agreed if broker in self.replicas)

    def isr_overtaken(self, proposal: IsrProposal) -> None:
        """Change nothing more: a newer epoch has begun, and we will be told."""
        if self.leadership is not None and self.leadership.epoch == proposal.epoch:
            self.leadership.overtaken()

    def shrink_isr(self) -> None:
        """Propose to do without those that have been behind for too long."""
        if self.leadership is not None:
            now_ms = self._keeper.now_ms()
            proposal = self.leadership.propose_shrinking(now_ms=now_ms)
            if proposal is not None:
                self._keeper.propose(self, proposal)
            self._advance_high_watermark(0)

    def _grow_isr(self, leadership: LeaderState) -> None:
        proposal = leadership.propose_growth(self.high_watermark, now_ms=self._keeper.now_ms())
        if proposal is not None:
            self._keeper.propose(self, proposal)

    # The log's place ------------------------------------------------------------------------------------------------

    @contextmanager
    def pinned(self) -> Iterator[None]:
        """Keep the log where it is."""
        self.pins += 1
        try:
            yield
        finally:
            self.pins -= 1

    def exchange_log(self, log: Log) -> None:
        """Go on with a copy of the log in another log dir, which holds the same."""
        assert not self._receipts, "nothing is staged between turns"
        assert not self.pins, "nobody works on the files"
        self.log = log

    # Appending ------------------------------------------------------------------------------------------------------

    def stage(self, records: memoryview, *, now_ms: int, receipt: Receipt, has_keys: bool = False) -> Staged:
        """Check a batch, give it its offsets and keep it for `write_staged`; `receipt` is marked if that fails."""
        staged = self.log.stage(records, leader_epoch=self.leader_epoch, now_ms=now_ms, has_keys=has_keys)
        if staged.duplicate:
            return staged
        if not self._receipts:
            self._appends.staged.append(self)
        self._receipts.append(receipt)
        self._staged_bytes += len(records)
        return staged

    def stage_from_coordinator(self, records: memoryview, *, now_ms: int, receipt: Receipt) -> Staged:
        """Stage what a coordinator made: the end of a transaction, or a part of one that has no sequences."""
        staged = self.log.stage_from_coordinator(records, leader_epoch=self.leader_epoch, now_ms=now_ms)
        if not self._receipts:
            self._appends.staged.append(self)
        self._receipts.append(receipt)
        self._staged_bytes += len(records)
        # Once an end is committed, much more than its own bytes may be readable.
        self._ends_transactions = self._ends_transactions or read_header(records).is_control
        return staged

    def write_staged(self) -> None:
        """Write what was staged; on failure nothing of it happened, and every receipt says so."""
        receipts, self._receipts = self._receipts, []
        written_bytes, self._staged_bytes = self._staged_bytes, 0
        try:
            self.log.write_staged()
        except StorageError as error:
            for receipt in receipts:
                receipt.error_code = error.code
                receipt.base_offset = -1
            return
        self._appends.written_bytes += written_bytes
        self._appends.written_batches += len(receipts)
        if self.log.limits.flush_ms < NEVER:
            self._appends.unflushed[self] = None
        if self.leadership is not None:
            self.leadership.appended(Offset(self.log.log_end_offset), now_ms=self._keeper.now_ms())
            for reader in self.replica_readers:
                reader.data_arrived(written_bytes)
        if self.wants_sync:
            self._syncer.sync(self)
        else:
            self._advance_high_watermark(written_bytes)

    @property
    def wants_sync(self) -> bool:
        """Whether `flush.messages` asks for an fsync before what is written may be called committed."""
        return self.log.log_end_offset - self.log.recovery_point >= self.log.limits.flush_messages

    @property
    def syncs_appends(self) -> bool:
        """Whether some appends have to wait for an fsync."""
        return self.log.limits.flush_messages < NEVER

    def synced(self) -> None:
        """Go on after an fsync: what it made durable may be committed."""
        if not self.leads:
            return
        waiting, self._sync_waiters = self._sync_waiters, []
        for entry in waiting:
            if entry[0] <= self._durable_end:
                entry[1].committed()
            else:
                self._sync_waiters.append(entry)
        self._advance_high_watermark(0)

    @property
    def _durable_end(self) -> int:
        """How far this replica itself has kept its promise: all that is written, and synced if that is asked for."""
        return self.log.recovery_point if self.wants_sync else self.log.log_end_offset

    def _advance_high_watermark(self, written_bytes: int) -> None:
        """Commit what every in-sync replica has: with one replica, all that is written (and synced, if asked)."""
        end = self.log.recovery_point if self.wants_sync else self.log.log_end_offset
        if self.leadership is not None:
            end = self.leadership.high_watermark(self.high_watermark, own_end=Offset(end), now_ms=self._keeper.now_ms())
        if end <= self.high_watermark:
            return
        self.high_watermark = Offset(end)
        waiters = self._commit_waiters
        if waiters and waiters[0][0] <= end:
            self._tell_committed(end)
        if self._ends_transactions:
            self._ends_transactions = False
            written_bytes = EVERYTHING
        for follower in self.followers_of_data:
            follower.data_arrived(written_bytes or 1)
        if self.leadership is not None:
            for reader in self.replica_readers:
                # It is told the new watermark with its next answer, and not woken for it unless others wait there.
                reader.data_arrived(EVERYTHING if self._keeper.pushes_watermark else 0)

    def _tell_committed(self, end: int) -> None:
        waiters = self._commit_waiters
        is_enough = len(self.in_sync_replicas) >= self.min_insync_replicas
        while waiters and waiters[0][0] <= end:
            waiter = waiters.popleft()[1]
            if is_enough:
                waiter.committed()
            else:
                waiter.refused(ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND)

    def when_committed(self, end_offset: Offset, waiter: CommitWaiter) -> bool:
        """Return True if all below `end_offset` is committed; otherwise tell `waiter` when it is."""
        if end_offset <= self.high_watermark:
            return True
        self._commit_waiters.append((end_offset, waiter))
        return False

    def when_synced(self, end_offset: Offset, waiter: CommitWaiter) -> bool:
        """Return True if our own disk has all below `end_offset`; otherwise tell `waiter` when it has."""
        if end_offset <= self._durable_end:
            return True
        self._sync_waiters.append((end_offset, waiter))
        return False

    def forget(self, waiter: CommitWaiter) -> None:
        """Stop telling `waiter`."""
        self._commit_waiters = deque(entry for entry in self._commit_waiters if entry[1] is not waiter)
        self._sync_waiters = [entry for entry in self._sync_waiters if entry[1] is not waiter]

    def check_enough_replicas(self) -> None:
        """Refuse a write with acks=all that could not be kept by as many replicas as the topic asks for."""
        if len(self.in_sync_replicas) < self.min_insync_replicas:
            raise KafkaError(
                f"{len(self.in_sync_replicas)} in-sync replicas; min.insync.replicas asks for "
                f"{self.min_insync_replicas}",
                code=ErrorCode.NOT_ENOUGH_REPLICAS,
            )

    # Reading --------------------------------------------------------------------------------------------------------

    @property
    def last_stable_offset(self) -> Offset:
        """The offset below which no transaction is open: what read_committed readers may see."""
        return Offset(self.log.last_stable_offset(self.high_watermark))

    def check_epoch(self, theirs: int) -> None:
        """Refuse a client that knows another leader epoch than ours."""
        if theirs not in (NO_EPOCH, self.leader_epoch):
            check_epoch(theirs, self.leader_epoch)

    @property
    def knows_what_is_committed(self) -> bool:
        """Whether our watermark has reached what our predecessor may have committed (KIP-207)."""
        return self.leadership is None or self.high_watermark >= self.leadership.start_offset

    def read(
        self, offset: Offset, *, max_bytes: int, committed_only: bool, at_least_one_batch: bool, may_wait: bool = True
    ) -> FileRegion | None:
        """Return what a consumer may read from `offset` on, or None if there is nothing yet; else see `Log.read`."""
        limit = self.last_stable_offset if committed_only else self.high_watermark
        if limit <= offset <= self.log.log_end_offset:
            return None
        return self.log.read(
            offset, max_bytes=max_bytes, up_to=limit, at_least_one=at_least_one_batch, may_wait=may_wait
        )

    # Replicating ----------------------------------------------------------------------------------------------------

    def replica_fetched(
        self, broker: BrokerId, offset: Offset, *, epoch: int, last_epoch: int, log_start: int
    ) -> EpochEnd | None:
        """Note a follower's fetch; return where its log and ours part if it is not a prefix of ours.

        A fetch that carries another epoch than ours proves nothing, and is refused; one from a log that differs from
        ours proves nothing either. Every other one says how far its sender is: that may commit records, and may bring
        the sender back among those in sync.
        """
        check_replica_epoch(epoch, self.leader_epoch)
        if last_epoch >= 0:
            log = self.log
            start, end = Offset(log.log_start_offset), Offset(log.log_end_offset)
            if has_nothing_in_common(
                log.leader_epochs, start, last_epoch=last_epoch, followers_start=log_start, fetch_offset=offset
            ):
                raise KafkaError(f"what broker {broker} has is older", code=ErrorCode.OFFSET_OUT_OF_RANGE)
            diverging = divergence(log.leader_epochs, end, last_epoch=last_epoch, fetch_offset=offset)
            if diverging is not None:
                return diverging
        leadership = self.leadership
        if leadership is None:
            raise KafkaError(f"{self.name} has no other replica", code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        if not self.log.log_start_offset <= offset <= self.log.log_end_offset:
            return None  # reading will refuse it
        leadership.fetched(broker, offset, log_start=log_start, now_ms=self._keeper.now_ms())
        self._advance_high_watermark(0)
        self._grow_isr(leadership)
        return None

    def read_for_replica(
        self, offset: Offset, *, max_bytes: int, at_least_one_batch: bool, may_wait: bool = True
    ) -> FileRegion | None:
        """Return what a follower lacks from `offset` on, committed or not; None if it has everything."""
        end = self.log.log_end_offset
        return self.log.read(offset, max_bytes=max_bytes, up_to=end, at_least_one=at_least_one_batch, may_wait=may_wait)

    def append_from_leader(
        self, records: memoryview, *, high_watermark: Offset, log_start_offset: Offset, now_ms: int
    ) -> None:
        """Append what our leader sent, as it is; learn how far it is committed, and where the log starts by now."""
        log = self.log
        if len(records):
            log.append_as_follower(records, now_ms=now_ms)
            if log.limits.flush_ms < NEVER:
                self._appends.unflushed[self] = None
        before, self.high_watermark = (
            self.high_watermark,
            followers_high_watermark(Offset(log.log_start_offset), Offset(log.log_end_offset), high_watermark),
        )
        self.is_caught_up = log.log_end_offset >= high_watermark
        if self.followers_of_data and self.high_watermark > before:
            for reader in self.followers_of_data:
                reader.data_arrived(len(records) or EVERYTHING)
            self._appends.finish()
        if log.log_start_offset < log_start_offset <= log.log_end_offset:
            log.delete_records_before(log_start_offset)

    def truncate_to_leader(self, diverging: EpochEnd, *, now_ms: int) -> Offset:
        """Cut what our leader does not have, as far as one of its answers tells; the next fetch goes on from there."""
        log = self.log
        offset = truncation_offset(log.leader_epochs, Offset(log.log_end_offset), diverging)
        log.truncate_to(offset, now_ms=now_ms)
        self.high_watermark = min(self.high_watermark, Offset(log.log_end_offset))
        return Offset(log.log_end_offset)

    def restart_log(self, offset: Offset, *, now_ms: int) -> None:
        """Begin anew at `offset`: all that we have, our leader has deleted since."""
        self.log.restart_at(offset, now_ms=now_ms)
        self.high_watermark = offset
