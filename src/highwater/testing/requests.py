"""The two requests that tests of the wire send most: a batch to one partition, and a read of one partition."""

from highwater.model.ids import NO_TOPIC_ID
from highwater.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from highwater.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from highwater.testing.waiting import PATIENCE_SECONDS


def produce_request(
    topic: str,
    batch: bytes | bytearray | None,
    *,
    partition: int = 0,
    acks: int = 1,
    topic_id: bytes = NO_TOPIC_ID,
) -> ProduceRequest:
    """Return a request to append `batch`; from version 13 on, the topic goes by its id."""
    records = None if batch is None else memoryview(batch)
    data = TopicProduceData(
        name=topic, topic_id=topic_id, partition_data=[PartitionProduceData(index=partition, records=records)]
    )
    return ProduceRequest(acks=acks, timeout_ms=int(PATIENCE_SECONDS * 1000), topic_data=[data])


def fetch_request(
    topic: str,
    offset: int,
    *,
    partition: int = 0,
    max_bytes: int = 1 << 20,
    min_bytes: int = 1,
    max_wait_ms: int = 500,
    leader_epoch: int = -1,
    topic_id: bytes = NO_TOPIC_ID,
) -> FetchRequest:
    """Return a request to read from `offset` on, outside any fetch session."""
    asked = FetchPartition(
        partition=partition,
        fetch_offset=offset,
        partition_max_bytes=max_bytes,
        current_leader_epoch=leader_epoch,
    )
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        topics=[FetchTopic(topic=topic, topic_id=topic_id, partitions=[asked])],
    )
