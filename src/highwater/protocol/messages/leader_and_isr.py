"""LeaderAndIsr (key 4, between brokers): the controller tells replicas whom to lead and whom to follow."""

from highwater.protocol.schema import Message, Struct, array, boolean, int8, int16, int32, int64, string, uuid


class LeaderAndIsrPartitionState(Struct):
    """Who leads one partition, who follows, and since when."""

    topic_name: str = string(versions="0-1")
    partition_index: int = int32()
    controller_epoch: int = int32()
    leader: int = int32()
    leader_epoch: int = int32()
    isr: list[int] = array(int32)
    partition_epoch: int = int32()
    replicas: list[int] = array(int32)
    adding_replicas: list[int] = array(int32, versions="3+")
    removing_replicas: list[int] = array(int32, versions="3+")
    is_new: bool = boolean(versions="1+")
    leader_recovery_state: int = int8(versions="6+")  # 0: recovered, 1: recovering after an unclean election


class LeaderAndIsrTopicState(Struct):
    """The partitions of one topic."""

    topic_name: str = string()
    topic_id: bytes = uuid(versions="5+")
    partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState)


class LeaderAndIsrLiveLeader(Struct):
    """The address of a leader that followers must fetch from."""

    broker_id: int = int32()
    host_name: str = string()
    port: int = int32()


class LeaderAndIsrRequest(Message, key=4, versions="0-7", flexible="4+"):
    """The partitions that the receiver holds a replica of, as the controller wants them."""

    controller_id: int = int32()
    is_kraft_controller: bool = boolean(versions="7+")
    controller_epoch: int = int32()
    broker_epoch: int = int64(versions="2+", default=-1)
    type: int = int8(versions="5+")  # 0: unknown, 1: some topics, 2: all topics
    ungrouped_partition_states: list[LeaderAndIsrPartitionState] = array(LeaderAndIsrPartitionState, versions="0-1")
    topic_states: list[LeaderAndIsrTopicState] = array(LeaderAndIsrTopicState, versions="2+")
    live_leaders: list[LeaderAndIsrLiveLeader] = array(LeaderAndIsrLiveLeader)


class LeaderAndIsrPartitionError(Struct):
    """What became of one partition."""

    topic_name: str = string(versions="0-4")
    partition_index: int = int32()
    error_code: int = int16()


class LeaderAndIsrTopicError(Struct):
    """What became of the partitions of one topic."""

    topic_id: bytes = uuid()
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError)


class LeaderAndIsrResponse(Message, key=4, response=True, versions="0-7", flexible="4+"):
    """What became of each partition."""

    error_code: int = int16()
    partition_errors: list[LeaderAndIsrPartitionError] = array(LeaderAndIsrPartitionError, versions="0-4")
    topics: list[LeaderAndIsrTopicError] = array(LeaderAndIsrTopicError, versions="5+")
