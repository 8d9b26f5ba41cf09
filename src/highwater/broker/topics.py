"""The topics of the cluster as this broker knows them: by name and by id, each with its partitions and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.model.ids import NO_TOPIC_ID, BrokerId, LeaderEpoch, TopicId

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from highwater.config.topic_settings import TopicSettings

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})


class PartitionState:
    """Who holds a partition, who leads it since which epoch, and who is in sync."""

    __slots__ = ("isr", "leader", "leader_epoch", "replicas", "version")

    def __init__(
        self,
        *,
        replicas: tuple[BrokerId, ...],
        leader: BrokerId,
        leader_epoch: LeaderEpoch,
        isr: tuple[BrokerId, ...],
        version: int,
    ) -> None:
        self.replicas = replicas
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.isr = isr
        self.version = version
        """Of its state node, for the next conditional write."""


class Topic:
    """One topic. `partitions[i]` is partition i."""

    __slots__ = ("configs", "id", "name", "partitions", "settings")

    def __init__(
        self,
        name: str,
        topic_id: TopicId,
        partitions: list[PartitionState],
        configs: dict[str, str],
        settings: TopicSettings,
    ) -> None:
        self.name = name
        self.id = topic_id
        self.partitions = partitions
        self.configs = configs
        """Its overrides, as they are stored."""
        self.settings = settings
        """What is in force, overrides and broker's values together."""

    @property
    def is_internal(self) -> bool:
        """Return whether only brokers write to it."""
        return self.name in INTERNAL_TOPICS


class Topics:
    """What this broker knows of the cluster's topics; both lookups are one step."""

    __slots__ = ("_by_id", "_by_name", "_watchers")

    def __init__(self) -> None:
        self._by_name: dict[str, Topic] = {}
        self._by_id: dict[TopicId, Topic] = {}
        self._watchers: list[Callable[[str], None]] = []

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def watch(self, on_change: Callable[[str], None]) -> None:
        """Call `on_change` with the name of every topic that came, grew or went."""
        self._watchers.append(on_change)

    def stop_watching(self, on_change: Callable[[str], None]) -> None:
        """Call `on_change` no longer."""
        self._watchers.remove(on_change)

    def __iter__(self) -> Iterator[Topic]:
        """Go over all topics in the order of their names."""
        return iter([self._by_name[name] for name in sorted(self._by_name)])

    def __len__(self) -> int:
        return len(self._by_name)

    def get(self, name: str) -> Topic | None:
        """Return the topic of this name."""
        return self._by_name.get(name)

    def with_id(self, topic_id: TopicId) -> Topic | None:
        """Return the topic of this id."""
        return self._by_id.get(topic_id)

    def name_of(self, topic_id: TopicId) -> str | None:
        """Return the name of the topic that has this id."""
        topic = self._by_id.get(topic_id)
        return None if topic is None else topic.name

    @staticmethod
    def is_internal(name: str) -> bool:
        """Return whether only brokers write to this topic."""
        return name in INTERNAL_TOPICS

    def put(self, topic: Topic) -> None:
        """Know a new topic."""
        assert topic.id != NO_TOPIC_ID, "every topic has an id"
        assert topic.name not in self._by_name, f"{topic.name} is known already"
        self._by_name[topic.name] = topic
        self._by_id[topic.id] = topic
        self.changed(topic.name)

    def changed(self, name: str) -> None:
        """Tell those who watch that a topic is not what it was."""
        for on_change in list(self._watchers):
            on_change(name)

    def remove(self, topic: Topic) -> None:
        """Know a topic no longer."""
        del self._by_name[topic.name]
        del self._by_id[topic.id]
        self.changed(topic.name)

    def clashing_with(self, name: str) -> str | None:
        """Return a topic whose name differs from `name` in `.` and `_` only: metrics cannot tell the two apart."""
        if "." not in name and "_" not in name:
            return None
        folded = name.replace(".", "_")
        return next((other for other in self._by_name if other != name and other.replace(".", "_") == folded), None)
