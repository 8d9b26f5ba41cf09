"""Topics of a benchmark: made before a round, gone after it, so that the page cache is used again."""

import contextlib
import uuid
from collections.abc import Iterable, Iterator

from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.brokers import Broker
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from highwater.testing.waiting import wait_until
from highwater.testing.wire import WireClient

TIMEOUT_SECONDS = 120.0
_LATEST = -1
_CONFIG = {"file.delete.delay.ms": "0"}
"""The one setting that is not the default, on both sides: a deleted topic's pages are free for the next round."""


@contextlib.contextmanager
def scratch_topic(broker: Broker, partitions: int) -> Iterator[str]:
    """Make a topic, wait until all of it can be used, and delete it in the end."""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    create_topic(broker, name, partitions)
    try:
        yield name
    finally:
        admin = _admin(broker)
        admin.delete_topics([name])[name].result(TIMEOUT_SECONDS)


def _admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 5})


def create_topic(broker: Broker, name: str, partitions: int) -> None:
    """Make a topic and wait until all of it can be used."""
    admin = _admin(broker)
    asked = NewTopic(name, num_partitions=partitions, replication_factor=1, config=_CONFIG)
    admin.create_topics([asked], operation_timeout=TIMEOUT_SECONDS, request_timeout=TIMEOUT_SECONDS)[name].result()
    wait_until(lambda: is_usable(broker, name, range(partitions)), name, timeout_seconds=TIMEOUT_SECONDS)


def is_usable(broker: Broker, topic: str, partitions: Iterable[int]) -> bool:
    """Whether a broker leads these partitions and is at work on each."""
    return all(found.error_code == ErrorCode.NONE for found in _ends(broker, topic, partitions))


def records_in(broker: Broker, topic: str, partitions: int) -> int:
    """Return how many records were written to a topic, outside of transactions."""
    ends = _ends(broker, topic, range(partitions))
    assert all(found.error_code == ErrorCode.NONE for found in ends), f"{broker.name} does not know the end of {topic}"
    return sum(found.offset for found in ends)


def _ends(broker: Broker, topic: str, partitions: Iterable[int]) -> list[ListOffsetsPartitionResponse]:
    asked = [ListOffsetsPartition(partition_index=number, timestamp=_LATEST) for number in partitions]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=asked)])
    with WireClient(broker.bootstrap) as client:
        return list(client.call(request, ListOffsetsResponse, 5).topics[0].partitions)
