"""The committed offsets in `__consumer_offsets`.

A record's key begins with its type as an int16 (the `API_KEY` of the key's class), its value with the version that the
rest is written in. Keys of type 0, from before Kafka 0.9, look like those of type 1.
"""

from highwater.protocol.schema import Message, int32, int64, string, uuid


class OffsetCommitKey(Message, key=1, versions="0"):
    """Whose offset, in which partition."""

    group: str = string()
    topic: str = string()
    partition: int = int32()


class OffsetCommitValue(Message, versions="0-4", flexible="4+"):
    """How far the group has read the partition."""

    offset: int = int64()
    leader_epoch: int = int32(versions="3+", default=-1)
    metadata: str = string()
    commit_timestamp: int = int64()
    expire_timestamp: int = int64(versions="1", default=-1)
    topic_id: bytes = uuid(versions="4+", tag=0)
