"""The partitions that this broker holds, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import NO_BROKER, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from highwater.broker.partition import Partition


class Leadership(Protocol):
    """Whoever coordinates by the partitions of an internal topic: each partition's leader has a share of the work."""

    def lead(self, partition: Partition) -> None:
        """Begin with this partition's share."""

    def resign(self, index: int) -> None:
        """Let go of it."""


class Partitions:
    """A lookup table of what this broker leads or follows."""

    __slots__ = ("_by_name", "_leaderships", "_offline")

    def __init__(self) -> None:
        self._by_name: dict[tuple[str, int], Partition] = {}
        self._offline: dict[tuple[str, int], str] = {}
        self._leaderships: dict[str, Leadership] = {}

    def tell(self, topic: str, leadership: Leadership) -> None:
        """From now on, tell `leadership` which partitions of `topic` come and go."""
        self._leaderships[topic] = leadership

    def __iter__(self) -> Iterator[Partition]:
        return iter(list(self._by_name.values()))

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def offline(self) -> int:
        """How many partitions cannot be served because their disk failed."""
        return len(self._offline)

    def is_offline(self, topic: str, index: int) -> bool:
        """Return whether the partition is here and cannot be served because its disk failed."""
        return (topic, index) in self._offline

    def get(self, topic: str, index: int) -> Partition | None:
        """Return the partition, or None if this broker does not serve it."""
        return self._by_name.get((topic, index))

    def leader_of(self, topic: str, index: int) -> Partition:
        """Return the partition that this broker leads, or raise what a client should know."""
        found = self.replica_of(topic, index)
        if not found.leads:
            raise KafkaError(f"broker {found.leader} leads {found.name}", code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return found

    def replica_of(self, topic: str, index: int) -> Partition:
        """Return the partition that this broker leads or follows, or raise what a client should know."""
        found = self._by_name.get((topic, index))
        if found is None:
            if (topic, index) in self._offline:
                raise KafkaError(self._offline[topic, index], code=ErrorCode.KAFKA_STORAGE_ERROR)
            raise KafkaError(f"no partition {topic}-{index} here", code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if not found.leads and found.leader == NO_BROKER:
            raise KafkaError(f"nobody leads {found.name}", code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        return found

    def add(self, partition: Partition) -> None:
        """Know a partition."""
        self._by_name[partition.name] = partition
        self._offline.pop(partition.name, None)

    def role_changed(self, partition: Partition) -> None:
        """Tell those who coordinate by this partition whether it is theirs now."""
        leadership = self._leaderships.get(partition.name.topic)
        if leadership is None:
            return
        if partition.leads:
            leadership.lead(partition)
        else:
            leadership.resign(partition.name.partition)

    def remove(self, name: TopicPartition) -> Partition | None:
        """Serve a partition no longer; return it if it was there."""
        self._offline.pop(name, None)
        return self._take_out(name)

    def take_offline(self, name: TopicPartition, reason: str) -> None:
        """Answer KAFKA_STORAGE_ERROR for this partition from now on."""
        self._take_out(name)
        self._offline[name] = reason

    def _take_out(self, name: TopicPartition) -> Partition | None:
        partition = self._by_name.pop(name, None)
        leadership = self._leaderships.get(name.topic)
        if partition is not None and leadership is not None:
            leadership.resign(name.partition)
        return partition
