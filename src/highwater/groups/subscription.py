"""What consumers of the classic protocol tell each other, as far as the coordinator must understand it.

To the protocol this is opaque. Yet offsets of a topic that a group still reads must neither expire nor be deleted, and
a group that moves to the newer protocol keeps what its members have; so subscriptions and assignments are read where
they can be. Whatever cannot be read (other clients, other embedded protocols) stays opaque.
"""

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import Final, TypeVar

from highwater.model.errors import KafkaError
from highwater.protocol import codec
from highwater.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
)

_VERSION: Final = Struct(">h")
_MessageT = TypeVar("_MessageT", ConsumerProtocolSubscription, ConsumerProtocolAssignment)


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription | None:
    """Return the subscription in a member's metadata, or None if that is something else."""
    return _read(ConsumerProtocolSubscription, metadata)


def read_assignment(assignment: bytes) -> ConsumerProtocolAssignment | None:
    """Return what a leader assigned to a member, or None if that is something else; no bytes are no partitions."""
    return _read(ConsumerProtocolAssignment, assignment) if assignment else ConsumerProtocolAssignment()


def _read(cls: type[_MessageT], data: bytes) -> _MessageT | None:
    """Read what opens with its version. A newer one only adds to the end, so it is read as the newest we know."""
    if len(data) < _VERSION.size:
        return None
    version = _VERSION.unpack_from(data)[0]
    if version < 0:
        return None
    read = codec.decoder(cls, min(version, cls.VERSIONS.stop - 1))
    try:
        return read(memoryview(data), _VERSION.size)[0]
    except KafkaError:
        return None


def write_assignment(partitions: Mapping[str, Iterable[int]], *, like: bytes) -> bytes:
    """Return an assignment as a leader would write it, in the version in which the member wrote its subscription."""
    version = min(_VERSION.unpack_from(like)[0], ConsumerProtocolAssignment.VERSIONS.stop - 1) if like else 0
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            TopicPartitions(topic=topic, partitions=sorted(partitions[topic])) for topic in sorted(partitions)
        ]
    )
    return _VERSION.pack(version) + codec.encode(message, version)


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Return every topic that any of the members reads, or None if one of them cannot be understood.

    Members of one application say the same, so each saying is read once.
    """
    topics: set[str] = set()
    for each in set(metadata):
        subscription = read_subscription(each)
        if subscription is None:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
