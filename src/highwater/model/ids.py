"""Names for the numbers that must not be mixed up."""

import base64
from typing import Final, NamedTuple, NewType

BrokerId = NewType("BrokerId", int)
Offset = NewType("Offset", int)
LeaderEpoch = NewType("LeaderEpoch", int)
ProducerId = NewType("ProducerId", int)

TopicId = NewType("TopicId", bytes)
"""Sixteen bytes, as on the wire; users see it as text, see `topic_id_text`."""

NO_TOPIC_ID: Final = TopicId(bytes(16))
NO_PRODUCER_ID: Final = ProducerId(-1)
NO_BROKER: Final = BrokerId(-1)
UNKNOWN_OFFSET: Final = Offset(-1)


class TopicPartition(NamedTuple):
    """One partition of one topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def topic_id_text(topic_id: TopicId) -> str:
    """Return the 22-character URL-safe text by which Kafka's tools show a topic id."""
    return base64.urlsafe_b64encode(topic_id).rstrip(b"=").decode("ascii")


def topic_id_from_text(text: str) -> TopicId:
    """Return the topic id that `topic_id_text` shows as `text`."""
    return TopicId(base64.urlsafe_b64decode(text + "=="))
