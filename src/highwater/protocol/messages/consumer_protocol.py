"""What consumers tell each other through the coordinator of a classic group, which need not understand it.

Both begin with the version that the rest is written in, as an int16.
"""

from highwater.protocol.schema import Message, Struct, array, blob, int32, string


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic: str = string()
    partitions: list[int] = array(int32)


class ConsumerProtocolSubscription(Message, versions="0-3"):
    """What a member of a classic group tells its leader."""

    topics: list[str] = array(string)
    user_data: bytes | None = blob(nullable="0+", default=None)
    owned_partitions: list[TopicPartitions] = array(TopicPartitions, versions="1+")
    generation_id: int = int32(versions="2+", default=-1)
    rack_id: str | None = string(versions="3+", nullable="0+", default=None)


class ConsumerProtocolAssignment(Message, versions="0-3"):
    """What the leader of a classic group tells a member."""

    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    user_data: bytes | None = blob(nullable="0+", default=None)
