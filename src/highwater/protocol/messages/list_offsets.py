"""ListOffsets (key 2): the offset at a timestamp, or at either end of a log."""

from highwater.protocol.schema import Message, Struct, array, int8, int16, int32, int64, string


class ListOffsetsPartition(Struct):
    """One partition, and the timestamp to look up in it."""

    partition_index: int = int32()
    current_leader_epoch: int = int32(versions="4+", default=-1)
    timestamp: int = int64()  # in ms; -1: the end, -2: the start, -3: the largest timestamp


class ListOffsetsTopic(Struct):
    """The partitions of one topic to look into."""

    name: str = string()
    partitions: list[ListOffsetsPartition] = array(ListOffsetsPartition)


class ListOffsetsRequest(Message, key=2, versions="1-10", flexible="6+"):
    """Which timestamps to look up where."""

    replica_id: int = int32()
    isolation_level: int = int8(versions="2+")  # 0: read uncommitted, 1: read committed
    topics: list[ListOffsetsTopic] = array(ListOffsetsTopic)
    timeout_ms: int = int32(versions="10+")


class ListOffsetsPartitionResponse(Struct):
    """The offset that was found in one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    timestamp: int = int64(default=-1)
    offset: int = int64(default=-1)
    leader_epoch: int = int32(versions="4+", default=-1)


class ListOffsetsTopicResponse(Struct):
    """The offsets that were found in one topic."""

    name: str = string()
    partitions: list[ListOffsetsPartitionResponse] = array(ListOffsetsPartitionResponse)


class ListOffsetsResponse(Message, key=2, response=True, versions="1-10", flexible="6+"):
    """The offsets that were found."""

    throttle_time_ms: int = int32(versions="2+")
    topics: list[ListOffsetsTopicResponse] = array(ListOffsetsTopicResponse)
