"""A follower's Fetch: it says how far the follower is before it asks for more, and reads what is not committed yet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.broker.delayed_fetch import DelayedFetch
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol.messages.fetch import EpochEndOffset, PartitionData
from highwater.replication.fencing import check_replica_epoch
from highwater.storage.errors import NotInMemory

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from highwater.broker.delayed_fetch import Caller, Reading
    from highwater.broker.fetch_interest import FetchEntry, FetchInterest
    from highwater.broker.partition import Partition
    from highwater.broker.replication_throttles import ReplicationThrottles
    from highwater.model.ids import BrokerId
    from highwater.protocol.messages.fetch import FetchRequest


class ReplicaFetch(DelayedFetch):
    """A fetch by `replica`. The first pass over its partitions tells each leader's rules; waiting for more does not."""

    __slots__ = ("_has_told", "_held_back", "_pushes_watermark", "_replica", "_throttles")

    def __init__(
        self,
        loop: AbstractEventLoop,
        caller: Caller,
        request: FetchRequest,
        interest: FetchInterest,
        max_bytes: int,
        full: bool,  # noqa: FBT001 - as in the class above
        *,
        replica: BrokerId,
        throttles: ReplicationThrottles,
        pushes_watermark: bool,
    ) -> None:
        super().__init__(loop, caller, request, interest, max_bytes, full)
        self._replica = replica
        self._throttles = throttles
        self._pushes_watermark = pushes_watermark
        self._has_told = False
        self._held_back: list[FetchEntry] = []

    def _read(self) -> Reading:
        """Tell the partitions how far the follower is, if they do not know, and read."""
        self._held_back = []
        reading = super()._read()
        # The next poll looks at them again, although nothing has arrived there since: they were only throttled.
        reading.unread += self._held_back
        self._has_told = True
        # Consumers wait at the follower for what is committed: it is not to hear of that half a second late.
        reading.is_urgent = reading.is_urgent or (self._pushes_watermark and bool(reading.told))
        return reading

    def _read_entry(self, entry: FetchEntry, budget_bytes: int, *, at_least_one_batch: bool) -> PartitionData:
        partition = None
        try:
            partition = self._caller.find(entry)
            entry.follow(partition)
            return self._read_partition(partition, entry, budget_bytes, at_least_one_batch=at_least_one_batch)
        except NotInMemory as error:
            assert partition is not None
            return self._cold_entry(partition, entry, error)
        except KafkaError as error:
            entry.unfollow()
            refused = PartitionData(
                partition_index=entry.key[1],
                error_code=error.code,
                high_watermark=-1,
                last_stable_offset=-1,
                records=b"",
            )
            if partition is not None and error.code is ErrorCode.OFFSET_OUT_OF_RANGE:
                refused.log_start_offset = partition.log.log_start_offset
            return refused

    def _read_partition(
        self, partition: Partition, entry: FetchEntry, budget_bytes: int, *, at_least_one_batch: bool
    ) -> PartitionData:
        check_replica_epoch(entry.known_epoch, partition.leader_epoch)
        diverging = records = None
        if not self._has_told:
            diverging = partition.replica_fetched(
                self._replica,
                entry.fetch_offset,
                epoch=entry.known_epoch,
                last_epoch=entry.last_fetched_epoch,
                log_start=entry.log_start_offset,
            )
        has_room = budget_bytes > 0 or at_least_one_batch
        if diverging is None and has_room and self._throttles.holds_back_sending(partition, self._replica):
            self._held_back.append(entry)
        elif diverging is None and has_room:
            records = partition.read_for_replica(
                entry.fetch_offset,
                max_bytes=min(entry.max_bytes, budget_bytes),
                at_least_one_batch=at_least_one_batch,
                may_wait=self._may_wait,
            )
        if records is not None:
            self._throttles.sent(partition, self._replica, len(records))
        return PartitionData(
            partition_index=entry.key[1],
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            diverging_epoch=None if diverging is None else EpochEndOffset(epoch=diverging[0], end_offset=diverging[1]),
            records=records if records is not None else b"",
        )
