"""Kafka's own `ConsumerGroupCommand`: every action, every way to reset, run in one JVM as its script would run it."""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from confluent_kafka import Producer

    from highwater.testing.java import JavaClients

RECORDS = 10
MINUTE_MS = 60_000


class GroupCommand:
    """The command for one group of the broker under test."""

    def __init__(self, java: JavaClients, bootstrap: str, group: str) -> None:
        self._java = java
        self._bootstrap = bootstrap
        self._group = group

    def __call__(self, *arguments: str) -> str:
        return self._java.tool_output(
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
            *("--bootstrap-server", self._bootstrap, *arguments),
        )

    def table(self, *arguments: str) -> list[dict[str, str]]:
        """Return the rows of what it prints about the group, by their headings."""
        lines = [line.split() for line in self("--group", self._group, *arguments).splitlines() if line.strip()]
        start = next(number for number, line in enumerate(lines) if line[0] == "GROUP")
        return [dict(zip(lines[start], line, strict=False)) for line in lines[start + 1 :]]

    def reset(self, *arguments: str) -> list[int]:
        """Return the new offsets that a reset names, in the order of partitions."""
        rows = self.table("--reset-offsets", *arguments)
        return [int(row["NEW-OFFSET"]) for row in sorted(rows, key=lambda row: row["PARTITION"])]


@pytest.fixture
def group(topic_name: str) -> str:
    return topic_name


@pytest.fixture
def command(java_clients: JavaClients, bootstrap: str, group: str) -> GroupCommand:
    return GroupCommand(java_clients, bootstrap, group)


def a_member(bootstrap: str, group: str, topic: str, protocol: str) -> Consumer:
    """A member that has both partitions, with offset 4 committed in each."""
    member = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "client.id": "ana",
            "enable.auto.commit": False,
        }
    )
    member.subscribe([topic])
    wait_until(lambda: member.poll(0.05) is None and len(member.assignment()) == 2, "both partitions")
    member.commit(offsets=[TopicPartition(topic, number, 4) for number in range(2)], asynchronous=False)
    return member


def committed(consumer: Consumer, topic: str) -> list[int]:
    places = consumer.committed([TopicPartition(topic, number) for number in range(2)], PATIENCE_SECONDS)
    return [place.offset for place in places]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_at_work_is_listed_and_described(
    command: GroupCommand, bootstrap: str, group: str, new_topic: Callable[..., str], protocol: str
) -> None:
    topic = new_topic(partitions=2)
    with closing(a_member(bootstrap, group, topic, protocol)):
        assert group in command("--list").split()
        listed = {line.split()[0]: line.split()[1:] for line in command("--list", "--state", "stable").splitlines()}
        assert listed[group] == ["Stable"]
        assert group not in command("--list", "--state", "empty")
        typed = {line.split()[0]: line.split()[1:] for line in command("--list", "--type", protocol).splitlines()}
        assert [word.lower() for word in typed[group]] == [protocol]
        rows = command.table("--describe")
        assert {(row["TOPIC"], row["PARTITION"], row["CURRENT-OFFSET"], row["LAG"]) for row in rows} == {
            (topic, "0", "4", "-4"),
            (topic, "1", "4", "-4"),
        }
        assert {(row["CLIENT-ID"], row["HOST"]) for row in rows} == {("ana", "/127.0.0.1")}
        (member,) = command.table("--describe", "--members", "--verbose")
        assert member["#PARTITIONS"] == "2"
        assert topic in " ".join(member.values())
        (state,) = command.table("--describe", "--state")
        assert "Stable" in state.values()
        assert "1" in state.values()
        with pytest.raises(AssertionError, match=r"(?i)inactive|stable|active"):
            command.reset("--topic", topic, "--to-earliest", "--execute")


def test_a_group_is_reset_in_every_way(
    command: GroupCommand,
    bootstrap: str,
    group: str,
    new_topic: Callable[..., str],
    producer: Producer,
    tmp_path: Path,
) -> None:
    """One record a minute in each partition, the first an hour ago."""
    topic = new_topic(partitions=2)
    first_ms = int(time.time() * 1000) - 60 * MINUTE_MS
    for number in range(RECORDS):
        for partition in range(2):
            producer.produce(topic, b"x", partition=partition, timestamp=first_ms + number * MINUTE_MS)
    producer.flush(PATIENCE_SECONDS)
    a_member(bootstrap, group, topic, "classic").close()
    moment = datetime.fromtimestamp(first_ms / 1000 + 4.5 * 60, UTC).strftime("%Y-%m-%dT%H:%M:%S.000")
    plan = tmp_path / "plan.csv"
    plan.write_text(f"{topic},0,3\n{topic},1,8\n", encoding="utf-8")
    ways: list[tuple[list[str], list[int]]] = [
        (["--topic", topic, "--to-latest"], [10, 10]),
        (["--topic", topic, "--shift-by", "-3"], [7, 7]),
        (["--all-topics", "--to-current"], [7, 7]),
        (["--topic", topic, "--to-offset", "2"], [2, 2]),
        (["--topic", topic, "--to-offset", "99"], [10, 10]),
        (["--topic", topic, "--by-duration", "PT57M30S"], [3, 3]),
        (["--topic", topic, "--to-datetime", moment], [5, 5]),
        (["--from-file", str(plan)], [3, 8]),
        (["--topic", topic, "--to-earliest"], [0, 0]),
    ]
    with closing(Consumer({"bootstrap.servers": bootstrap, "group.id": group})) as reader:
        before = committed(reader, topic)
        for arguments, expected in ways:
            assert command.reset(*arguments, "--dry-run") == expected, arguments
            assert committed(reader, topic) == before, "a dry run changes nothing"
            assert command.reset(*arguments, "--execute") == expected, arguments
            assert committed(reader, topic) == expected, arguments
            before = expected
        assert command.reset("--topic", f"{topic}:1", "--to-offset", "6", "--execute") == [6]
        assert committed(reader, topic) == [0, 6]
        exported = command("--group", group, "--reset-offsets", "--all-topics", "--to-current", "--export")
        assert sorted(line.replace('"', "") for line in exported.split()) == [f"{topic},0,0", f"{topic},1,6"]

        assert "Successful" in command("--group", group, "--delete-offsets", "--topic", f"{topic}:0")
        assert committed(reader, topic) == [-1001, 6]
    assert "successful" in command("--group", group, "--delete")
    assert group not in command("--list").split()


def test_members_that_subscribe_to_a_pattern_find_new_topics(
    java_clients: JavaClients, bootstrap: str, group: str, new_topic: Callable[..., str]
) -> None:
    """The broker itself matches the pattern, which is RE2 (KIP-848)."""
    pattern = java_clients.kafka.clients.consumer.SubscriptionPattern(f"{group}-[0-9]+")
    first = new_topic(partitions=2)
    member: Any = java_clients.consumer(bootstrap_servers=bootstrap, group_id=group, group_protocol="consumer")
    with closing(member):
        member.subscribe(pattern)

        def reads(*topics: str) -> bool:
            member.poll(java_clients.duration(50))
            return {partition.topic() for partition in member.assignment()} == set(topics)

        wait_until(lambda: reads(first), "the topic that is there")
        second = new_topic(partitions=1)
        wait_until(lambda: reads(first, second), "the one that came later")
