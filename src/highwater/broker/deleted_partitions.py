"""Whether a partition that this broker does not know was deleted: only the cluster's memory can say.

A broker may not have been told of a new topic yet. If its transactions took the topic for deleted, they would leave one
open there that nobody ever ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.coordination import paths
from highwater.coordination.port import CoordinationError
from highwater.coordination.records import TopicRecord
from highwater.model.log_events import EventLog

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task
    from collections.abc import Callable, Iterable

    from highwater.broker.topics import Topics
    from highwater.coordination.port import Coordination
    from highwater.model.ids import TopicPartition

events = EventLog("transactions")


class DeletedPartitions:
    """Finds out which partitions are gone for good."""

    def __init__(self, loop: AbstractEventLoop, topics: Topics, store: Coordination) -> None:
        self._loop = loop
        self._topics = topics
        self._store = store
        self._looking: set[Task[None]] = set()

    def look_for(self, names: Iterable[TopicPartition], tell: Callable[[TopicPartition], None]) -> None:
        """Tell later which of these are deleted. Nothing is told of those that exist, or that nobody can say now."""
        unknown = [name for name in names if not self._is_known(name)]
        if unknown:
            task = self._loop.create_task(self._look(unknown, tell))
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)

    def close(self) -> None:
        """Tell nobody any more."""
        for task in self._looking:
            task.cancel()

    def _is_known(self, name: TopicPartition) -> bool:
        topic = self._topics.get(name.topic)
        return topic is not None and name.partition < len(topic.partitions)

    async def _look(self, names: list[TopicPartition], tell: Callable[[TopicPartition], None]) -> None:
        topics = list(dict.fromkeys(name.topic for name in names))
        try:
            nodes = await self._store.read_many([paths.topic(topic) for topic in topics])
            going = await self._store.read_many([paths.deleted_topic(topic) for topic in topics])
        except CoordinationError as error:
            events.info("deletion_not_looked_up", reason=error)
            return
        there = {
            topic: frozenset(TopicRecord.decode(paths.topic(topic), node.data).replicas)
            for topic, node, is_going in zip(topics, nodes, going, strict=True)
            if node is not None and is_going is None
        }
        for name in names:
            if name.partition not in there.get(name.topic, ()):
                tell(name)
