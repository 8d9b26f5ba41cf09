"""The groups of KIP-848 in `__consumer_offsets`; see `offset_records` for how keys and values begin."""

from highwater.protocol.schema import Message, Struct, array, blob, int8, int32, int64, string, struct, uuid


class ConsumerGroupMetadataKey(Message, key=3, versions="0"):
    """Which group."""

    group_id: str = string()


class ConsumerGroupMetadataValue(Message, versions="0", flexible="0+"):
    """The epoch of the group; it rises when its members or their topics change."""

    epoch: int = int32()
    metadata_hash: int = int64(tag=0)


class ConsumerGroupMemberMetadataKey(Message, key=5, versions="0"):
    """Which member of which group."""

    group_id: str = string()
    member_id: str = string()


class ClassicProtocol(Struct):
    """A way of assigning partitions that a classic member supports."""

    name: str = string()
    metadata: bytes = blob()


class ClassicMemberMetadata(Struct):
    """What is kept of a member that still speaks the classic protocol."""

    session_timeout_ms: int = int32()
    supported_protocols: list[ClassicProtocol] = array(ClassicProtocol)


class ConsumerGroupMemberMetadataValue(Message, versions="0", flexible="0+"):
    """What a member said about itself."""

    instance_id: str | None = string(nullable="0+")
    rack_id: str | None = string(nullable="0+")
    client_id: str = string()
    client_host: str = string()
    subscribed_topic_names: list[str] = array(string)
    subscribed_topic_regex: str | None = string(nullable="0+")
    rebalance_timeout_ms: int = int32(default=-1)
    server_assignor: str | None = string(nullable="0+")
    classic_member_metadata: ClassicMemberMetadata | None = struct(ClassicMemberMetadata, nullable="0+", tag=0)


class ConsumerGroupPartitionMetadataKey(Message, key=4, versions="0"):
    """Which group."""

    group_id: str = string()


class PartitionMetadata(Struct):
    """The racks that hold a partition."""

    partition: int = int32()
    racks: list[str] = array(string)


class TopicMetadata(Struct):
    """A topic as it was when the group's assignment was computed."""

    topic_id: bytes = uuid()
    topic_name: str = string()
    num_partitions: int = int32()
    partition_metadata: list[PartitionMetadata] = array(PartitionMetadata)


class ConsumerGroupPartitionMetadataValue(Message, versions="0", flexible="0+"):
    """The topics that the group reads; superseded by `metadata_hash` of the group."""

    topics: list[TopicMetadata] = array(TopicMetadata)


class ConsumerGroupRegularExpressionKey(Message, key=16, versions="0"):
    """Which regular expression of which group."""

    group_id: str = string()
    regular_expression: str = string()


class ConsumerGroupRegularExpressionValue(Message, versions="0", flexible="0+"):
    """The topics that the expression matched."""

    topics: list[str] = array(string)
    version: int = int64()
    timestamp: int = int64()


class ConsumerGroupTargetAssignmentMetadataKey(Message, key=6, versions="0"):
    """Which group."""

    group_id: str = string()


class ConsumerGroupTargetAssignmentMetadataValue(Message, versions="0", flexible="0+"):
    """The group epoch that the target assignment was computed for."""

    assignment_epoch: int = int32()


class ConsumerGroupTargetAssignmentMemberKey(Message, key=7, versions="0"):
    """Which member of which group."""

    group_id: str = string()
    member_id: str = string()


class TopicPartitions(Struct):
    """Partitions of one topic."""

    topic_id: bytes = uuid()
    partitions: list[int] = array(int32)


class ConsumerGroupTargetAssignmentMemberValue(Message, versions="0", flexible="0+"):
    """What the member is meant to read."""

    topic_partitions: list[TopicPartitions] = array(TopicPartitions)


class ConsumerGroupCurrentMemberAssignmentKey(Message, key=8, versions="0"):
    """Which member of which group."""

    group_id: str = string()
    member_id: str = string()


class ConsumerGroupCurrentMemberAssignmentValue(Message, versions="0", flexible="0+"):
    """What the member reads now, and what it still has to give up."""

    member_epoch: int = int32()
    previous_member_epoch: int = int32()
    state: int = int8()  # 0: stable, 1: unrevoked partitions, 2: unreleased partitions, 127: unknown
    assigned_partitions: list[TopicPartitions] = array(TopicPartitions)
    partitions_pending_revocation: list[TopicPartitions] = array(TopicPartitions)
