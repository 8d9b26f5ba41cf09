"""Every group of one partition of the offsets topic, and what the partition's records make of them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TypeAlias

from highwater.groups.classic.group import ClassicGroup
from highwater.groups.classic.snapshot import restore
from highwater.groups.classic.states import GroupState
from highwater.groups.consumer import replay as consumer_replay
from highwater.groups.consumer.group import ConsumerGroup
from highwater.groups.consumer.topics import TopicsView
from highwater.groups.offsets import CommittedOffset, GroupOffsets
from highwater.groups.records import GroupRecord
from highwater.groups.settings import ConsumerTiming, GroupSettings
from highwater.model.ids import NO_PRODUCER_ID, Offset, ProducerId, TopicPartition
from highwater.protocol.messages.consumer_group_records import ConsumerGroupMetadataKey
from highwater.protocol.messages.group_metadata_records import GroupMetadataKey, GroupMetadataValue
from highwater.protocol.messages.offset_records import OffsetCommitKey, OffsetCommitValue

Group: TypeAlias = ClassicGroup | ConsumerGroup


class GroupShard:
    """The state of one partition.

    Invariant: replaying the partition's records into an empty shard gives the same committed offsets, and the same
    members, generations and assignments of every group that is not in the middle of a rebalance.
    """

    __slots__ = ("_next_sequence", "_timings", "groups", "offsets", "settings", "topics")

    def __init__(
        self,
        settings: GroupSettings,
        topics: TopicsView,
        timings: Mapping[str, ConsumerTiming] = MappingProxyType({}),
    ) -> None:
        """`timings` are those of the consumer groups that have their own; they may change at any time."""
        self.settings = settings
        self.topics = topics
        self._timings = timings
        self._next_sequence = 0
        self.groups: dict[str, Group] = {}
        self.offsets: dict[str, GroupOffsets] = {}

    def classic_group(self, group_id: str) -> ClassicGroup:
        """Return the group, made now if there is none of this kind."""
        group = self.groups.get(group_id)
        if not isinstance(group, ClassicGroup):
            group = self.groups[group_id] = ClassicGroup(group_id)
        return group

    def consumer_group(self, group_id: str) -> ConsumerGroup:
        """Return the group, made now if there is none of this kind: it takes the place of a classic one."""
        group = self.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            group = self.groups[group_id] = ConsumerGroup(group_id)
        return group

    def timing_of(self, group_id: str) -> ConsumerTiming:
        """Return how often members of a consumer group report, and for how long they may be silent."""
        return self._timings.get(group_id, self.settings.consumer_timing)

    def offsets_of(self, group_id: str) -> GroupOffsets:
        """Return what a group has committed; for reading only."""
        return self.offsets.get(group_id) or GroupOffsets()

    def apply(self, record: GroupRecord, *, now_ms: int, producer_id: ProducerId = NO_PRODUCER_ID) -> None:
        """Let one record of the partition count, whether it was decided just now or is read again after a restart."""
        key, value = record
        match key:
            case OffsetCommitKey(group=group_id, topic=topic, partition=partition):
                assert value is None or isinstance(value, OffsetCommitValue)
                self._apply_offset(group_id, TopicPartition(topic, partition), value, producer_id)
            case GroupMetadataKey(group=group_id):
                assert value is None or isinstance(value, GroupMetadataValue)
                self._apply_classic(group_id, value, now_ms)
            case _:
                self._apply_consumer(record)

    def end_transaction(self, producer_id: ProducerId, *, committed: bool) -> None:
        """Let the marker that ends a producer's transaction count for the offsets that were part of it."""
        for offsets in self.offsets.values():
            offsets.end_transaction(producer_id, committed=committed)

    def _apply_offset(
        self,
        group_id: str,
        name: TopicPartition,
        value: OffsetCommitValue | None,
        producer_id: ProducerId,
    ) -> None:
        if value is not None:
            self._next_sequence += 1
            if group_id not in self.groups:
                self.classic_group(group_id)  # A group may consist of offsets alone.
            committed = CommittedOffset(
                offset=Offset(value.offset),
                leader_epoch=value.leader_epoch,
                metadata=value.metadata,
                committed_at_ms=value.commit_timestamp,
                expires_at_ms=value.expire_timestamp,
                sequence=self._next_sequence,
            )
            self.offsets.setdefault(group_id, GroupOffsets()).put(name, committed, producer_id)
            return
        offsets = self.offsets.get(group_id)
        if offsets is not None:
            offsets.delete(name)
            if not offsets:
                del self.offsets[group_id]

    def _apply_classic(self, group_id: str, value: GroupMetadataValue | None, now_ms: int) -> None:
        if value is not None:
            self.groups[group_id] = restore(group_id, value, now_ms=now_ms)
            return
        group = self.groups.get(group_id)
        if isinstance(group, ClassicGroup):
            group.move_to(GroupState.DEAD)
            del self.groups[group_id]

    def _apply_consumer(self, record: GroupRecord) -> None:
        group_id: str = record.key.group_id  # type: ignore[attr-defined]  # as the keys of all its records have it
        group = self.groups.get(group_id)
        if record.value is not None:
            consumer_replay.apply(self.consumer_group(group_id), record)
        elif isinstance(group, ConsumerGroup):
            consumer_replay.apply(group, record)
            if isinstance(record.key, ConsumerGroupMetadataKey):
                del self.groups[group_id]
