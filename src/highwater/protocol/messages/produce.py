"""Produce (key 0): append record batches to partitions."""

from highwater.protocol.schema import Message, Struct, array, int16, int32, int64, record_batches, string, struct, uuid


class PartitionProduceData(Struct):
    """Batches for one partition."""

    index: int = int32()
    records: memoryview | None = record_batches(nullable="0+")


class TopicProduceData(Struct):
    """Batches for the partitions of one topic."""

    name: str = string(versions="0-12")
    topic_id: bytes = uuid(versions="13+")
    partition_data: list[PartitionProduceData] = array(PartitionProduceData)


class ProduceRequest(Message, key=0, versions="3-13", flexible="9+"):
    """Batches to append, and how many replicas must have them before the answer."""

    transactional_id: str | None = string(nullable="0+", default=None)
    acks: int = int16()  # 0: none, 1: the leader, -1: all in-sync replicas
    timeout_ms: int = int32()
    topic_data: list[TopicProduceData] = array(TopicProduceData)


class BatchIndexAndErrorMessage(Struct):
    """Why one record of a refused batch is at fault."""

    batch_index: int = int32()
    batch_index_error_message: str | None = string(nullable="0+", default=None)


class LeaderIdAndEpoch(Struct):
    """The leader that the producer should have asked."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class PartitionProduceResponse(Struct):
    """What became of the batches for one partition."""

    index: int = int32()
    error_code: int = int16()
    base_offset: int = int64()
    log_append_time_ms: int = int64(default=-1)
    log_start_offset: int = int64(versions="5+", default=-1)
    record_errors: list[BatchIndexAndErrorMessage] = array(BatchIndexAndErrorMessage, versions="8+")
    error_message: str | None = string(versions="8+", nullable="0+", default=None)
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, versions="10+", tag=0)


class TopicProduceResponse(Struct):
    """What became of the batches for one topic."""

    name: str = string(versions="0-12")
    topic_id: bytes = uuid(versions="13+")
    partition_responses: list[PartitionProduceResponse] = array(PartitionProduceResponse)


class NodeEndpoint(Struct):
    """Where a leader named in this answer can be reached (KIP-951)."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


class ProduceResponse(Message, key=0, response=True, versions="3-13", flexible="9+"):
    """What became of each batch."""

    responses: list[TopicProduceResponse] = array(TopicProduceResponse)
    throttle_time_ms: int = int32()
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, versions="10+", tag=0)
