"""The offsets that one group has committed."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from highwater.model.ids import NO_PRODUCER_ID, Offset, ProducerId, TopicPartition

NO_EXPIRY_MS: Final = -1
LATEST_TIME_MS: Final = 2**63 - 1


class CommittedOffset(NamedTuple):
    """A position in one partition, as a member left it."""

    offset: Offset
    leader_epoch: int
    metadata: str
    committed_at_ms: int
    expires_at_ms: int = NO_EXPIRY_MS
    """Set only by clients old enough to name a retention time of their own."""
    sequence: int = -1
    """Grows with every commit, so that of two the newer can be told."""


class GroupOffsets:
    """Committed offsets by topic and partition, and those of open transactions, which nobody sees yet."""

    __slots__ = ("_committed", "_pending")

    def __init__(self) -> None:
        self._committed: dict[str, dict[int, CommittedOffset]] = {}
        self._pending: dict[ProducerId, dict[TopicPartition, CommittedOffset]] = {}

    def __len__(self) -> int:
        return sum(len(partitions) for partitions in self._committed.values())

    def __bool__(self) -> bool:
        return bool(self._committed) or bool(self._pending)

    def get(self, topic: str, partition: int) -> CommittedOffset | None:
        """Return what is committed for one partition."""
        partitions = self._committed.get(topic)
        return None if partitions is None else partitions.get(partition)

    def topics(self) -> dict[str, dict[int, CommittedOffset]]:
        """Return all that is committed; not to be changed."""
        return self._committed

    def partitions(self) -> Iterator[TopicPartition]:
        """Return every partition with a committed offset."""
        for topic, partitions in self._committed.items():
            for partition in partitions:
                yield TopicPartition(topic, partition)

    def known_partitions(self) -> list[TopicPartition]:
        """Return every partition with an offset, committed or part of an open transaction, in order."""
        return sorted({*self.partitions(), *(name for offsets in self._pending.values() for name in offsets)})

    @property
    def has_pending(self) -> bool:
        """Whether an open transaction has offsets here."""
        return bool(self._pending)

    def is_pending(self, topic: str, partition: int) -> bool:
        """Whether an open transaction is about to move this partition's offset."""
        name = TopicPartition(topic, partition)
        return any(name in offsets for offsets in self._pending.values())

    def put(self, name: TopicPartition, committed: CommittedOffset, producer_id: ProducerId = NO_PRODUCER_ID) -> None:
        """Take in a commit; one that is part of a transaction waits for its end."""
        if producer_id != NO_PRODUCER_ID:
            self._pending.setdefault(producer_id, {})[name] = committed
            return
        self._committed.setdefault(name.topic, {})[name.partition] = committed

    def delete(self, name: TopicPartition) -> None:
        """Forget a partition's offset, and whatever transactions were about to make of it."""
        partitions = self._committed.get(name.topic)
        if partitions is not None:
            partitions.pop(name.partition, None)
            if not partitions:
                del self._committed[name.topic]
        for producer_id, offsets in list(self._pending.items()):
            offsets.pop(name, None)
            if not offsets:
                del self._pending[producer_id]

    def end_transaction(self, producer_id: ProducerId, *, committed: bool) -> None:
        """Let the producer's pending offsets count, or drop them. What was committed after them stands."""
        pending = self._pending.pop(producer_id, None)
        if pending is None or not committed:
            return
        for name, offset in pending.items():
            current = self.get(name.topic, name.partition)
            if current is None or current.sequence < offset.sequence:
                self.put(name, offset)
