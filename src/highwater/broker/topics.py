"""The topics of the cluster, by name and by id."""

from typing import Final

from highwater.model.ids import TopicId

INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})


class Topics:
    """What this broker knows of the cluster's topics."""

    def __init__(self) -> None:
        self._names_by_id: dict[TopicId, str] = {}

    def name_of(self, topic_id: TopicId) -> str | None:
        """Return the topic that has this id."""
        return self._names_by_id.get(topic_id)

    @staticmethod
    def is_internal(name: str) -> bool:
        """Return whether only brokers write to this topic."""
        return name in INTERNAL_TOPICS
