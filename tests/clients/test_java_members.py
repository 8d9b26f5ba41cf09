"""Groups of several Java consumers, with every assignor and both protocols."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Producer

    from highwater.testing.java import JavaClients

PARTITIONS = 10
ASSIGNORS = ("Range", "RoundRobin", "Sticky", "CooperativeSticky")
PROTOCOLS: list[dict[str, object]] = [
    {"group_protocol": "consumer", "group_remote_assignor": "uniform"},
    {"group_protocol": "consumer", "group_remote_assignor": "range"},
    *(
        {
            "heartbeat_interval_ms": 300,
            "partition_assignment_strategy": f"org.apache.kafka.clients.consumer.{name}Assignor",
        }
        for name in ASSIGNORS
    ),
]


class Group:
    """Java consumers of one group; what they read is kept."""

    def __init__(self, java: JavaClients, settings: dict[str, object], topic: str) -> None:
        self._java = java
        self._settings = settings
        self._topic = topic
        self.members: list[Any] = []
        self.values: list[int] = []

    def join(self) -> None:
        member = self._java.consumer(**self._settings)
        self.members.append(member)
        member.subscribe(self._java.list_of([self._topic]))

    def leave(self) -> None:
        self.members.pop().close()

    def close(self) -> None:
        while self.members:
            self.leave()

    def poll(self) -> None:
        for member in self.members:
            records = member.poll(self._java.duration(20))
            self.values += [int(record.value()) for record in self._java.each(records)]

    def read(self, count: int) -> None:
        """Read until there are so many values."""

        def are_read() -> bool:
            self.poll()
            return len(self.values) >= count

        wait_until(are_read, f"{count} records")

    def owned(self) -> list[set[int]]:
        """The partitions that each member has."""
        return [{partition.partition() for partition in member.assignment()} for member in self.members]

    def wait_for_shares(self, *shares: int) -> None:
        def are_shared() -> bool:
            self.poll()
            owned = self.owned()
            return sorted(map(len, owned)) == sorted(shares) and set().union(*owned) == set(range(PARTITIONS))

        wait_until(are_shared, f"shares of {shares}")


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda settings: str(next(reversed(settings.values()))))
def test_members_share_partitions_anew_when_one_comes_and_one_goes(
    java_clients: JavaClients,
    bootstrap: str,
    new_topic: Callable[..., str],
    producer: Producer,
    protocol: dict[str, object],
) -> None:
    """Two members, a third, and two again: every record is read once, and what is left over is not read again."""
    topic = new_topic(partitions=PARTITIONS)
    settings = {
        "bootstrap_servers": bootstrap,
        "group_id": topic,
        "auto_offset_reset": "earliest",
        "enable_auto_commit": True,
        **protocol,
    }
    with closing(Group(java_clients, settings, topic)) as group:
        for _ in range(2):
            group.join()
        group.wait_for_shares(5, 5)
        for number in range(100):
            producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
        producer.flush(PATIENCE_SECONDS)
        group.read(100)
        group.join()
        group.wait_for_shares(4, 3, 3)
        group.leave()
        group.wait_for_shares(5, 5)
        for number in range(100, 200):
            producer.produce(topic, str(number).encode(), partition=number % PARTITIONS)
        producer.flush(PATIENCE_SECONDS)
        group.read(200)
        assert sorted(group.values) == list(range(200))
