"""The end of a transaction, written to the partitions that this broker leads."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from highwater.broker.topics import OFFSETS_TOPIC
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import Offset, ProducerId, TopicPartition
from highwater.protocol.records.control import Marker, MarkerType, build_marker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from highwater.broker.appends import Appends
    from highwater.broker.group_coordinator import GroupCoordinator
    from highwater.broker.partition import Partition
    from highwater.broker.partitions import Partitions


class TransactionEnd(NamedTuple):
    """Whose transaction ended how, and in which epoch of the coordinator that was decided."""

    producer_id: ProducerId
    producer_epoch: int
    committed: bool
    coordinator_epoch: int


class _Written:
    """A marker in one partition, until it is committed."""

    __slots__ = ("_tell", "base_offset", "end_offset", "error_code", "name", "partition")

    def __init__(self, partition: Partition, tell: Callable[[TopicPartition, ErrorCode], None]) -> None:
        self.partition = partition
        self.name = partition.name
        self.error_code = 0
        self.base_offset = -1
        self.end_offset = Offset(-1)
        self._tell = tell

    def begin(self) -> None:
        """Wait until the marker is committed, unless it was not even written."""
        if self.error_code:
            self.refused(ErrorCode(self.error_code))
        elif self.partition.when_committed(self.end_offset, self):
            self.committed()

    def committed(self) -> None:
        self._tell(self.name, ErrorCode.NONE)

    def refused(self, code: ErrorCode) -> None:
        self._tell(self.name, code)


class MarkerWriter:
    """Writes markers; what became of each is told when it is committed, or cannot be."""

    def __init__(
        self, *, partitions: Partitions, groups: GroupCoordinator, appends: Appends, wall_ms: Callable[[], int]
    ) -> None:
        self._partitions = partitions
        self._groups = groups
        self._appends = appends
        self._wall_ms = wall_ms

    def write(
        self, end: TransactionEnd, names: Iterable[TopicPartition], tell: Callable[[TopicPartition, ErrorCode], None]
    ) -> None:
        """Write a marker to each partition; `tell` is called once for each, now or later."""
        staged = []
        for name in names:
            try:
                if name.topic == OFFSETS_TOPIC:
                    self._write_to_groups(end, name, tell)
                else:
                    staged.append(self._stage(end, name, tell))
            except KafkaError as error:
                tell(name, error.code)
        self._appends.finish()
        for written in staged:
            written.begin()

    def _stage(
        self, end: TransactionEnd, name: TopicPartition, tell: Callable[[TopicPartition, ErrorCode], None]
    ) -> _Written:
        partition = self._partitions.leader_of(*name)
        partition.check_enough_replicas()
        written = _Written(partition, tell)
        batch = self._marker(end)
        staged = partition.stage_from_coordinator(memoryview(batch), now_ms=self._wall_ms(), receipt=written)
        written.end_offset = Offset(staged.last_offset + 1)
        return written

    def _write_to_groups(
        self, end: TransactionEnd, name: TopicPartition, tell: Callable[[TopicPartition, ErrorCode], None]
    ) -> None:
        """Let the coordinator of these groups write it, in the order of its own decisions."""
        self._partitions.leader_of(*name)
        shard = self._groups.shard_at(name.partition)
        shard.end_transaction(self._marker(end), end.producer_id, committed=end.committed)
        shard.journal.when_committed(
            lambda error: tell(name, ErrorCode.NONE if error is None else ErrorCode.NOT_LEADER_OR_FOLLOWER)
        )

    def _marker(self, end: TransactionEnd) -> bytearray:
        marker = Marker(MarkerType.COMMIT if end.committed else MarkerType.ABORT, end.coordinator_epoch)
        return build_marker(
            marker,
            producer_id=end.producer_id,
            producer_epoch=end.producer_epoch,
            timestamp_ms=self._wall_ms(),
        )
