"""The cluster's topics as groups look at them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.groups.consumer.topics import TopicInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from highwater.broker.cluster import Cluster
    from highwater.broker.topics import Topic, Topics
    from highwater.model.ids import TopicId


class GroupTopics:
    """A view that counts changes, so that a group looks again only after one."""

    __slots__ = ("_cluster", "_topics", "_version")

    def __init__(self, topics: Topics, cluster: Cluster) -> None:
        self._topics = topics
        self._cluster = cluster
        self._version = 0
        topics.watch(self._changed)

    def _changed(self, name: str) -> None:
        del name
        self._version += 1

    @property
    def version(self) -> int:
        """Another number after every change."""
        return self._version

    def named(self, name: str) -> TopicInfo | None:
        """Return a topic."""
        topic = self._topics.get(name)
        return None if topic is None else TopicInfo(name, topic.id, len(topic.partitions), self._racks(topic))

    def name_of(self, topic_id: TopicId) -> str | None:
        """Return the name of the topic that has this id."""
        return self._topics.name_of(topic_id)

    def names(self) -> Iterable[str]:
        """Return the names of all topics that a pattern may mean; those of the broker's own it may not."""
        return [topic.name for topic in self._topics if not topic.is_internal]

    def _racks(self, topic: Topic) -> tuple[frozenset[str], ...]:
        """Return the racks of each partition's replicas, if any broker has one."""
        racks = {broker.id: broker.rack for broker in self._cluster.brokers.values() if broker.rack is not None}
        if not racks:
            return ()
        return tuple(
            frozenset(racks[replica] for replica in partition.replicas if replica in racks)
            for partition in topic.partitions
        )
