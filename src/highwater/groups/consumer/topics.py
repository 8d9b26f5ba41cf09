"""The topics that consumer groups read, and what of them matters to an assignment."""

from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from highwater.groups.consumer.assignors.spec import Racks
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import TopicId


class TopicInfo(NamedTuple):
    """One topic."""

    name: str
    id: TopicId
    partition_count: int
    racks: Racks = ()


class TopicsView(Protocol):
    """The topics of the cluster, as far as groups look at them."""

    @property
    def version(self) -> int:
        """Another number after every change."""

    def named(self, name: str) -> TopicInfo | None:
        """Return a topic."""

    def name_of(self, topic_id: TopicId) -> str | None:
        """Return the name of the topic that has this id."""

    def names(self) -> Iterable[str]:
        """Return the names of all topics that a consumer may subscribe to."""


class InvalidRegularExpression(KafkaError):
    """A subscription pattern that is not RE2 syntax."""

    code = ErrorCode.INVALID_REGULAR_EXPRESSION


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> Any:
    """Return the compiled pattern. RE2 matches in linear time, whatever a client sends."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(pattern, options=options)
    except re2.error as error:
        raise InvalidRegularExpression(f"SubscribedTopicRegex {pattern!r} is not a valid RE2 expression") from error


def matching(pattern: str, topics: TopicsView) -> frozenset[str]:
    """Return the topics whose whole name matches the pattern."""
    expression = compiled(pattern)
    return frozenset(name for name in topics.names() if expression.fullmatch(name))


def metadata_hash(names: Iterable[str], topics: TopicsView) -> int:
    """Return a number that changes when any of these topics comes, goes, grows or moves to other racks; 0 for none.

    Kafka 4.1 keeps such a number too (KIP-1101), of its own making: a group that moves from one to the other is
    assigned anew once.
    """
    digest = blake2b(digest_size=8)
    found = [topic for name in sorted(names) if (topic := topics.named(name)) is not None]
    for topic in found:
        racks = [sorted(of_partition) for of_partition in topic.racks]
        digest.update(repr((topic.name, topic.id, topic.partition_count, racks)).encode())
    return int.from_bytes(digest.digest(), "big", signed=True) if found else 0
