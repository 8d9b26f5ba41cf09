"""StopReplica (key 5, between brokers): the controller takes replicas away from a broker."""

from highwater.protocol.schema import Message, Struct, array, boolean, int16, int32, int64, string


class StopReplicaPartitionV0(Struct):
    """One partition to stop, as version 0 names it."""

    topic_name: str = string()
    partition_index: int = int32()


class StopReplicaTopicV1(Struct):
    """The partitions of one topic to stop, as versions 1 and 2 name them."""

    name: str = string()
    partition_indexes: list[int] = array(int32)


class StopReplicaPartitionState(Struct):
    """One partition to stop, and whether its data goes too."""

    partition_index: int = int32()
    leader_epoch: int = int32(default=-1)
    delete_partition: bool = boolean()


class StopReplicaTopicState(Struct):
    """The partitions of one topic to stop."""

    topic_name: str = string()
    partition_states: list[StopReplicaPartitionState] = array(StopReplicaPartitionState)


class StopReplicaRequest(Message, key=5, versions="0-4", flexible="2+"):
    """The replicas that the receiver shall stop, and perhaps delete."""

    controller_id: int = int32()
    is_kraft_controller: bool = boolean(versions="4+")
    controller_epoch: int = int32()
    broker_epoch: int = int64(versions="1+", default=-1)
    delete_partitions: bool = boolean(versions="0-2")
    ungrouped_partitions: list[StopReplicaPartitionV0] = array(StopReplicaPartitionV0, versions="0")
    topics: list[StopReplicaTopicV1] = array(StopReplicaTopicV1, versions="1-2")
    topic_states: list[StopReplicaTopicState] = array(StopReplicaTopicState, versions="3+")


class StopReplicaPartitionError(Struct):
    """What became of one partition."""

    topic_name: str = string()
    partition_index: int = int32()
    error_code: int = int16()


class StopReplicaResponse(Message, key=5, response=True, versions="0-4", flexible="2+"):
    """What became of each partition."""

    error_code: int = int16()
    partition_errors: list[StopReplicaPartitionError] = array(StopReplicaPartitionError)
