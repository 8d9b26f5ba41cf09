"""ControlledShutdown (key 7, between brokers): a broker asks the controller to be relieved of its leaderships."""

from highwater.protocol.schema import Message, Struct, array, int16, int32, int64, string


class ControlledShutdownRequest(Message, key=7, versions="0-3", flexible="3+"):
    """The broker that is about to stop."""

    broker_id: int = int32()
    broker_epoch: int = int64(versions="2+", default=-1)


class RemainingPartition(Struct):
    """A partition that the broker still leads."""

    topic_name: str = string()
    partition_index: int = int32()


class ControlledShutdownResponse(Message, key=7, response=True, versions="0-3", flexible="3+"):
    """What is left to move before the broker can stop."""

    error_code: int = int16()
    remaining_partitions: list[RemainingPartition] = array(RemainingPartition)
