"""Which partitions: sets by topic id, never with an empty one in them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias, TypeVar

from highwater.model.ids import TopicId

Assignment: TypeAlias = Mapping[TopicId, frozenset[int]]
NOTHING: Final[Assignment] = {}


class TopicPartitions(Protocol):
    """How messages and records say it."""

    topic_id: bytes
    partitions: list[int]


MessageT = TypeVar("MessageT")


def from_messages(entries: Iterable[TopicPartitions]) -> Assignment:
    """Return what a message or a record says; a topic may come more than once."""
    merged: dict[TopicId, frozenset[int]] = {}
    for entry in entries:
        if entry.partitions:
            topic_id = TopicId(entry.topic_id)
            merged[topic_id] = merged.get(topic_id, frozenset()) | frozenset(entry.partitions)
    return merged


def to_messages(assignment: Assignment, make: Callable[..., MessageT]) -> list[MessageT]:
    """Return the assignment as structs, in a stated order."""
    return [make(topic_id=topic_id, partitions=sorted(assignment[topic_id])) for topic_id in sorted(assignment)]


def pairs(assignment: Assignment) -> Iterator[tuple[TopicId, int]]:
    """Return every single partition."""
    for topic_id, partitions in assignment.items():
        for partition in partitions:
            yield topic_id, partition


def common(one: Assignment, other: Assignment) -> Assignment:
    """Return what is in both."""
    return {
        topic_id: shared
        for topic_id, partitions in one.items()
        if (shared := partitions & other.get(topic_id, frozenset()))
    }


def without(one: Assignment, other: Assignment) -> Assignment:
    """Return what is in one and not in the other."""
    return {
        topic_id: rest
        for topic_id, partitions in one.items()
        if (rest := partitions - other.get(topic_id, frozenset()))
    }


def joined(one: Assignment, other: Assignment) -> Assignment:
    """Return what is in either."""
    merged = dict(one)
    for topic_id, partitions in other.items():
        merged[topic_id] = merged.get(topic_id, frozenset()) | partitions
    return merged


def is_within(one: Assignment, other: Assignment) -> bool:
    """Whether all of one is in the other."""
    return all(partitions <= other.get(topic_id, frozenset()) for topic_id, partitions in one.items())
