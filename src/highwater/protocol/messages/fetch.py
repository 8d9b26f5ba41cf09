"""Fetch (key 1): read record batches, as a consumer or as a follower."""

from highwater.protocol.schema import (
    Message,
    Part,
    Struct,
    array,
    int8,
    int16,
    int32,
    int64,
    record_batches,
    string,
    struct,
    uuid,
)


class ReplicaState(Struct):
    """Which follower is asking, and in which of its lives."""

    replica_id: int = int32(default=-1)
    replica_epoch: int = int64(default=-1)


class FetchPartition(Struct):
    """One partition to read, and from where."""

    partition: int = int32()
    current_leader_epoch: int = int32(versions="9+", default=-1)
    fetch_offset: int = int64()
    last_fetched_epoch: int = int32(versions="12+", default=-1)
    log_start_offset: int = int64(versions="5+", default=-1)
    partition_max_bytes: int = int32()
    replica_directory_id: bytes = uuid(versions="17+", tag=0)
    high_watermark: int = int64(versions="18+", default=2**63 - 1, tag=1)


class FetchTopic(Struct):
    """The partitions of one topic to read."""

    topic: str = string(versions="0-12")
    topic_id: bytes = uuid(versions="13+")
    partitions: list[FetchPartition] = array(FetchPartition)


class ForgottenTopic(Struct):
    """Partitions that leave the fetch session."""

    topic: str = string(versions="7-12")
    topic_id: bytes = uuid(versions="13+")
    partitions: list[int] = array(int32)


class FetchRequest(Message, key=1, versions="4-18", flexible="12+"):
    """What to read, and how long to wait for how much of it."""

    cluster_id: str | None = string(versions="12+", nullable="0+", default=None, tag=0)
    replica_id: int = int32(versions="0-14", default=-1)
    replica_state: ReplicaState | None = struct(ReplicaState, versions="15+", tag=1)
    max_wait_ms: int = int32()
    min_bytes: int = int32()
    max_bytes: int = int32(default=2**31 - 1)
    isolation_level: int = int8()  # 0: read uncommitted, 1: read committed
    session_id: int = int32(versions="7+")
    session_epoch: int = int32(versions="7+", default=-1)
    topics: list[FetchTopic] = array(FetchTopic)
    forgotten_topics_data: list[ForgottenTopic] = array(ForgottenTopic, versions="7+")
    rack_id: str = string(versions="11+")


class EpochEndOffset(Struct):
    """Where the log of a follower and ours part ways (KIP-595)."""

    epoch: int = int32(default=-1)
    end_offset: int = int64(default=-1)


class LeaderIdAndEpoch(Struct):
    """The leader that the reader should have asked."""

    leader_id: int = int32(default=-1)
    leader_epoch: int = int32(default=-1)


class SnapshotId(Struct):
    """The snapshot that a follower should load instead."""

    end_offset: int = int64(default=-1)
    epoch: int = int32(default=-1)


class AbortedTransaction(Struct):
    """A transaction whose records a read_committed reader must drop."""

    producer_id: int = int64()
    first_offset: int = int64()


class PartitionData(Struct):
    """What was read of one partition."""

    partition_index: int = int32()
    error_code: int = int16()
    high_watermark: int = int64()
    last_stable_offset: int = int64(default=-1)
    log_start_offset: int = int64(versions="5+", default=-1)
    diverging_epoch: EpochEndOffset | None = struct(EpochEndOffset, versions="12+", tag=0)
    current_leader: LeaderIdAndEpoch | None = struct(LeaderIdAndEpoch, versions="12+", tag=1)
    snapshot_id: SnapshotId | None = struct(SnapshotId, versions="12+", tag=2)
    aborted_transactions: list[AbortedTransaction] | None = array(AbortedTransaction, nullable="0+")
    preferred_read_replica: int = int32(versions="11+", default=-1)
    records: Part | None = record_batches(nullable="0+")


class FetchableTopicResponse(Struct):
    """What was read of one topic."""

    topic: str = string(versions="0-12")
    topic_id: bytes = uuid(versions="13+")
    partitions: list[PartitionData] = array(PartitionData)


class NodeEndpoint(Struct):
    """Where a leader named in this answer can be reached (KIP-951)."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(nullable="0+", default=None)


class FetchResponse(Message, key=1, response=True, versions="4-18", flexible="12+"):
    """What was read."""

    throttle_time_ms: int = int32()
    error_code: int = int16(versions="7+")
    session_id: int = int32(versions="7+")
    responses: list[FetchableTopicResponse] = array(FetchableTopicResponse)
    node_endpoints: list[NodeEndpoint] = array(NodeEndpoint, versions="16+", tag=0)
