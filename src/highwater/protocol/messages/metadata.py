"""Metadata (key 3): which topics there are, and which brokers lead their partitions."""

from highwater.protocol.schema import Message, Struct, array, boolean, int16, int32, string, uuid


class MetadataRequestTopic(Struct):
    """A topic that is asked about, by name or by id."""

    topic_id: bytes = uuid(versions="10+")
    name: str | None = string(nullable="10+")


class MetadataRequest(Message, key=3, versions="0-13", flexible="9+"):
    """Which topics to describe; None stands for all of them."""

    topics: list[MetadataRequestTopic] | None = array(MetadataRequestTopic, nullable="1+")
    allow_auto_topic_creation: bool = boolean(versions="4+", default=True)
    include_cluster_authorized_operations: bool = boolean(versions="8-10")
    include_topic_authorized_operations: bool = boolean(versions="8+")


class MetadataResponseBroker(Struct):
    """A live broker, at the address for the listener that was asked."""

    node_id: int = int32()
    host: str = string()
    port: int = int32()
    rack: str | None = string(versions="1+", nullable="0+", default=None)


class MetadataResponsePartition(Struct):
    """Who leads a partition and who follows."""

    error_code: int = int16()
    partition_index: int = int32()
    leader_id: int = int32()
    leader_epoch: int = int32(versions="7+", default=-1)
    replica_nodes: list[int] = array(int32)
    isr_nodes: list[int] = array(int32)
    offline_replicas: list[int] = array(int32, versions="5+")


class MetadataResponseTopic(Struct):
    """A topic and its partitions."""

    error_code: int = int16()
    name: str | None = string(nullable="12+")
    topic_id: bytes = uuid(versions="10+")
    is_internal: bool = boolean(versions="1+")
    partitions: list[MetadataResponsePartition] = array(MetadataResponsePartition)
    topic_authorized_operations: int = int32(versions="8+", default=-(2**31))


class MetadataResponse(Message, key=3, response=True, versions="0-13", flexible="9+"):
    """The cluster as this broker knows it."""

    throttle_time_ms: int = int32(versions="3+")
    brokers: list[MetadataResponseBroker] = array(MetadataResponseBroker)
    cluster_id: str | None = string(versions="2+", nullable="0+", default=None)
    controller_id: int = int32(versions="1+", default=-1)
    topics: list[MetadataResponseTopic] = array(MetadataResponseTopic)
    cluster_authorized_operations: int = int32(versions="8-10", default=-(2**31))
    error_code: int = int16(versions="13+")
