"""One partition that this broker leads: its log, its high watermark, and who waits for either to move."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from highwater.model.errors import ErrorCode, KafkaError, StorageError
from highwater.model.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition

if TYPE_CHECKING:
    from highwater.broker.appends import Appends
    from highwater.broker.log_syncer import LogSyncer
    from highwater.storage.file_region import FileRegion
    from highwater.storage.log import Log, Staged

NO_EPOCH: Final = LeaderEpoch(-1)
EVERYTHING: Final = 2**31 - 1
"""Enough bytes to satisfy any waiting fetch."""
NEVER: Final = 2**63 - 1
"""Kafka's default of `flush.messages` and `flush.ms`: leave it to the operating system."""


class Receipt(Protocol):
    """What a staged append is answered with; a failed write marks it."""

    error_code: int
    base_offset: int


class DataWaiter(Protocol):
    """A fetch that follows this partition."""

    def data_arrived(self, size_bytes: int) -> None:
        """More can be read now than before, by about `size_bytes`."""


class CommitWaiter(Protocol):
    """A produce that waits for the high watermark."""

    def committed(self) -> None:
        """Everything that was waited for in this partition is committed."""


class Partition:
    """The leader's view of one partition.

    Offsets: the log end offset is the next offset to be given; what is below the high watermark is committed. Both only
    move forward while we lead.
    """

    __slots__ = (
        "_appends",
        "_commit_waiters",
        "_receipts",
        "_staged_bytes",
        "_syncer",
        "followers_of_data",
        "high_watermark",
        "in_sync_replicas",
        "leader_epoch",
        "log",
        "min_insync_replicas",
        "name",
        "replicas",
        "topic_id",
    )

    def __init__(
        self,
        name: TopicPartition,
        *,
        topic_id: TopicId,
        log: Log,
        leader_epoch: LeaderEpoch,
        replicas: tuple[BrokerId, ...],
        min_insync_replicas: int,
        appends: Appends,
        syncer: LogSyncer,
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.log = log
        self.leader_epoch = leader_epoch
        self.replicas = replicas
        self.in_sync_replicas = replicas
        self.min_insync_replicas = min_insync_replicas
        self._appends = appends
        self._syncer = syncer
        self.high_watermark = Offset(log.log_end_offset)
        self.followers_of_data: dict[DataWaiter, None] = {}
        self._receipts: list[Receipt] = []
        self._staged_bytes = 0
        self._commit_waiters: deque[tuple[Offset, CommitWaiter]] = deque()

    # Appending ------------------------------------------------------------------------------------------------------

    def stage(self, records: memoryview, *, now_ms: int, receipt: Receipt) -> Staged:
        """Check a batch, give it its offsets and keep it for `write_staged`; `receipt` is marked if that fails."""
        staged = self.log.stage(records, leader_epoch=self.leader_epoch, now_ms=now_ms)
        if staged.duplicate:
            return staged
        if not self._receipts:
            self._appends.staged.append(self)
        self._receipts.append(receipt)
        self._staged_bytes += len(records)
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
        if self.log.config.flush_ms < NEVER:
            self._appends.unflushed[self] = None
        if self.wants_sync:
            self._syncer.sync(self)
        else:
            self._advance_high_watermark(written_bytes)

    @property
    def wants_sync(self) -> bool:
        """Whether `flush.messages` asks for an fsync before what is written may be called committed."""
        return self.log.log_end_offset - self.log.recovery_point >= self.log.config.flush_messages

    @property
    def syncs_appends(self) -> bool:
        """Whether some appends have to wait for an fsync."""
        return self.log.config.flush_messages < NEVER

    def synced(self) -> None:
        """Go on after an fsync: what it made durable may be committed."""
        self._advance_high_watermark(0)

    def _advance_high_watermark(self, written_bytes: int) -> None:
        """Commit what every in-sync replica has: with one replica, all that is written (and synced, if asked)."""
        end = self.log.recovery_point if self.wants_sync else self.log.log_end_offset
        if end <= self.high_watermark:
            return
        self.high_watermark = Offset(end)
        waiters = self._commit_waiters
        while waiters and waiters[0][0] <= end:
            waiters.popleft()[1].committed()
        for follower in self.followers_of_data:
            follower.data_arrived(written_bytes or 1)

    def when_committed(self, end_offset: Offset, waiter: CommitWaiter) -> bool:
        """Return True if all below `end_offset` is committed; otherwise tell `waiter` when it is."""
        if end_offset <= self.high_watermark:
            return True
        self._commit_waiters.append((end_offset, waiter))
        return False

    def forget(self, waiter: CommitWaiter) -> None:
        """Stop telling `waiter`."""
        self._commit_waiters = deque(entry for entry in self._commit_waiters if entry[1] is not waiter)

    def check_enough_replicas(self) -> None:
        """Refuse a write with acks=all that could not be kept by as many replicas as the topic asks for."""
        if len(self.in_sync_replicas) < self.min_insync_replicas:
            raise KafkaError(
                f"{len(self.in_sync_replicas)} in-sync replicas; min.insync.replicas asks for "
                f"{self.min_insync_replicas}",
                code=ErrorCode.NOT_ENOUGH_REPLICAS,
            )

    def close(self) -> None:
        """Tell those who follow this partition that it is gone; they look again and find out."""
        for follower in list(self.followers_of_data):
            follower.data_arrived(EVERYTHING)

    # Reading --------------------------------------------------------------------------------------------------------

    @property
    def last_stable_offset(self) -> Offset:
        """The offset below which no transaction is open: what read_committed readers may see."""
        return Offset(self.log.last_stable_offset(self.high_watermark))

    def check_epoch(self, theirs: int) -> None:
        """Refuse a caller that knows another leader epoch than ours."""
        if theirs in {NO_EPOCH, self.leader_epoch}:
            return
        fenced = theirs < self.leader_epoch
        raise KafkaError(
            f"the request carries leader epoch {theirs}, {self.name} is at {self.leader_epoch}",
            code=ErrorCode.FENCED_LEADER_EPOCH if fenced else ErrorCode.UNKNOWN_LEADER_EPOCH,
        )

    def read(
        self, offset: Offset, *, max_bytes: int, committed_only: bool, at_least_one_batch: bool
    ) -> FileRegion | None:
        """Return what a consumer may read from `offset` on, or None if there is nothing yet."""
        limit = self.last_stable_offset if committed_only else self.high_watermark
        if limit <= offset <= self.log.log_end_offset:
            return None
        return self.log.read(offset, max_bytes=max_bytes, up_to=limit, at_least_one=at_least_one_batch)
