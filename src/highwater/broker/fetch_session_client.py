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
    """Remembers what was asked, and asks only for what differs. After an error it starts over with everything.

    Once it has begun, a request may be sent before the last one is answered: the leader answers that one at once then.
    """

    __slots__ = ("_epoch", "_id", "_known", "_requests", "is_denied")

    def __init__(self) -> None:
        self._id = NO_SESSION
        self._epoch = INITIAL_EPOCH
        self._known: dict[PartitionKey, tuple[Wanted, int]] = {}
        """What was last asked of each partition, and in which request."""
        self._requests = 0
        self.is_denied = False
        """Whether the leader had no room for a session when it was last asked."""

    def __len__(self) -> int:
        """Return how many partitions the leader knows to be wanted."""
        return len(self._known)

    @property
    def has_begun(self) -> bool:
        """Whether the leader knows what was asked; otherwise the next request names everything."""
        return self._epoch != INITIAL_EPOCH

    def asked(self, key: PartitionKey, request: int) -> Wanted | None:
        """Return what was asked of a partition in a request; None if it was asked something else since, or nothing."""
        wanted, number = self._known.get(key, (None, 0))
        return wanted if number <= request else None

    def add_to(
        self, request: FetchRequest, changed: Mapping[PartitionKey, Wanted], unwanted: Iterable[PartitionKey] = ()
    ) -> int:
        """Complete a request with what has changed since the last, or with everything; return the request's number."""
        request.session_id, request.session_epoch = self._id, self._epoch
        self._requests += 1
        known = self._known
        topics: dict[TopicId, FetchTopic] = {}
        for key, asked in changed.items():
            before = known.get(key)
            if before is None or before[0] != asked:
                known[key] = asked, self._requests
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
        if self.has_begun:
            self._epoch = 1 if self._epoch == MAX_EPOCH else self._epoch + 1
        return self._requests

    def answered(self, session_id: int) -> None:
        """Go on with the session that an answer without error names; 0 means that the leader has no room for one."""
        self._id, self.is_denied = session_id, session_id == NO_SESSION
        if self.is_denied:
            self.start_over()
        elif not self.has_begun:
            self._epoch = 1

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
