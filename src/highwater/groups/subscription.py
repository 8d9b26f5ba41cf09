"""What consumers of the classic protocol tell each other, as far as the coordinator must understand it.

To the protocol this is opaque. Yet offsets of a topic that a group still reads must neither expire nor be deleted, so
the topics are read out of it; whatever cannot be read (other clients, other embedded protocols) stays opaque.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final

from highwater.model.errors import KafkaError
from highwater.protocol import codec
from highwater.protocol.messages.consumer_protocol import ConsumerProtocolSubscription

_VERSION: Final = Struct(">h")
_NEWEST_KNOWN: Final = ConsumerProtocolSubscription.VERSIONS.stop - 1


def read_subscription(metadata: bytes) -> ConsumerProtocolSubscription | None:
    """Return the subscription in a member's metadata, or None if that is something else.

    A newer version only adds to the end, so it is read as the newest we know.
    """
    if len(metadata) < _VERSION.size:
        return None
    version = _VERSION.unpack_from(metadata)[0]
    if version < 0:
        return None
    read = codec.decoder(ConsumerProtocolSubscription, min(version, _NEWEST_KNOWN))
    try:
        return read(memoryview(metadata), _VERSION.size)[0]
    except KafkaError:
        return None


def subscribed_topics(metadata: Iterable[bytes]) -> frozenset[str] | None:
    """Return every topic that any of the members reads, or None if one of them cannot be understood."""
    topics: set[str] = set()
    for each in metadata:
        subscription = read_subscription(each)
        if subscription is None:
            return None
        topics.update(subscription.topics)
    return frozenset(topics)
