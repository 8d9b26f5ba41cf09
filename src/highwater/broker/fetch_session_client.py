"""A follower's side of a fetch session (KIP-227): what the leader knows already is not said again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from highwater.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from highwater.model.ids import TopicId

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
MAX_EPOCH: Final = 2**31 - 1


class Wanted(NamedTuple):
    """What a fetch asks of one partition."""

    offset: int
    leader_epoch: int
    last_epoch: int
    log_start_offset: int
    max_bytes: int


PartitionKey = tuple["TopicId", int]


class FetchSessionClient:
    """Remembers what was asked, and asks only for what differs. After an error it starts over with everything."""

    __slots__ = ("_epoch", "_id", "_known")

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._known: dict[PartitionKey, Wanted] = {}

    def __len__(self) -> int:
        """Return how many partitions the leader knows to be wanted."""
        return len(self._known)

    @property
    def starts_over(self) -> bool:
        """Whether the next request must name everything."""
        return self._epoch == INITIAL_EPOCH

    def asked(self, key: PartitionKey) -> Wanted | None:
        """Return what was last asked of a partition."""
        return self._known.get(key)

    def add_to(
        self, request: FetchRequest, changed: Mapping[PartitionKey, Wanted], unwanted: Iterable[PartitionKey] = ()
    ) -> None:
        """Complete a request with what has changed since the last, or with everything if it starts over."""
        request.session_id, request.session_epoch = self._id, self._epoch
        known = self._known
        topics: dict[TopicId, FetchTopic] = {}
        for key, asked in changed.items():
            if known.get(key) != asked:
                known[key] = asked
                _topic(topics, key[0]).partitions.append(_partition(key[1], asked))
        forgotten: dict[TopicId, ForgottenTopic] = {}
        for key in unwanted:
            if known.pop(key, None) is not None:
                topic_id, index = key
                entry = forgotten.get(topic_id)
                if entry is None:
                    entry = forgotten[topic_id] = ForgottenTopic(topic_id=topic_id)
                entry.partitions.append(index)
        request.topics, request.forgotten_topics_data = list(topics.values()), list(forgotten.values())

    def answered(self, session_id: int) -> None:
        """Go on with the session that an answer without error names; 0 means that the leader has no room for one."""
        self._id = session_id
        if session_id == NO_SESSION:
            self.start_over()
        else:
            self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1

    def start_over(self) -> None:
        """Ask for everything next time: the leader may have lost the session, or we an answer.

        The request still names the old session, so that a leader that has it lets go of it.
        """
        self._epoch = INITIAL_EPOCH
        self._known.clear()


def _topic(topics: dict[TopicId, FetchTopic], topic_id: TopicId) -> FetchTopic:
    topic = topics.get(topic_id)
    if topic is None:
        topic = topics[topic_id] = FetchTopic(topic_id=topic_id)
    return topic


def _partition(index: int, asked: Wanted) -> FetchPartition:
    return FetchPartition(
        partition=index,
        current_leader_epoch=asked.leader_epoch,
        fetch_offset=asked.offset,
        last_fetched_epoch=asked.last_epoch,
        log_start_offset=asked.log_start_offset,
        partition_max_bytes=asked.max_bytes,
    )
