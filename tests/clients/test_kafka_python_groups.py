"""kafka-python in a group."""

import uuid
from collections.abc import Callable
from contextlib import ExitStack, closing
from threading import Event, Thread
from typing import Any

import pytest
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.structs import OffsetAndMetadata

from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

ASSIGNORS = [
    RangePartitionAssignor,
    RoundRobinPartitionAssignor,
    StickyPartitionAssignor,
    CooperativeStickyAssignor,
]


def test_a_group_goes_on_where_it_committed(bootstrap: str, topic: str) -> None:
    group = f"group-{uuid.uuid4().hex[:8]}"
    with closing(KafkaProducer(bootstrap_servers=bootstrap)) as producer:
        for number in range(10):
            producer.send(topic, str(number).encode())
        producer.flush(PATIENCE_SECONDS)
    settings: dict[str, Any] = {"bootstrap_servers": bootstrap, "group_id": group, "auto_offset_reset": "earliest"}

    def next_values(consumer: KafkaConsumer, count: int) -> list[int]:
        return [int(next(consumer).value) for _ in range(count)]

    partition = TopicPartition(topic, 0)
    with closing(KafkaConsumer(topic, enable_auto_commit=False, **settings)) as first:
        assert next_values(first, 4) == [0, 1, 2, 3]
        first.commit({partition: OffsetAndMetadata(4, "so far", -1)})
        assert first.committed(partition) == 4
    with closing(KafkaConsumer(topic, **settings)) as second:
        assert next_values(second, 6) == [4, 5, 6, 7, 8, 9]
    with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
        assert group in str(admin.list_groups())


def poll_until(stop: Event, consumer: Any) -> None:
    while not stop.is_set():
        consumer.poll(timeout_ms=100)


@pytest.mark.parametrize("assignor", ASSIGNORS, ids=lambda assignor: assignor.__name__)
def test_two_members_share_four_partitions(bootstrap: str, new_topic: Callable[..., str], assignor: type) -> None:
    topic = new_topic(partitions=4)
    settings = {
        "bootstrap_servers": bootstrap,
        "group_id": topic,
        "partition_assignment_strategy": [assignor],
        "heartbeat_interval_ms": 300,
    }
    with ExitStack() as stack:
        members = [stack.enter_context(closing(KafkaConsumer(topic, **settings))) for _ in range(2)]
        for consumer in members:  # a leader that knows no partitions yet gives out none, and looks again in minutes
            assert consumer.partitions_for_topic(topic) == {0, 1, 2, 3}
        stop = Event()
        pollers = [Thread(target=poll_until, args=(stop, consumer)) for consumer in members]
        for poller in pollers:  # each by itself: one that waits for the others to join must not keep them from polling
            poller.start()
        try:
            wait_until(
                lambda: [len(consumer.assignment()) for consumer in members] == [2, 2],
                "two partitions each",
                timeout_seconds=2 * PATIENCE_SECONDS,
            )
        finally:
            stop.set()
            for poller in pollers:
                poller.join(PATIENCE_SECONDS)
