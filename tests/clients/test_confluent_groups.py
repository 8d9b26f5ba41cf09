"""librdkafka in a group: shared partitions, committed offsets, both group protocols."""

import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

NewTopic = Callable[..., str]
Member = Callable[..., Consumer]

CLASSIC = {"group.protocol": "classic"}
SERVER_SIDE = {"group.protocol": "consumer"}


@pytest.fixture
def group() -> str:
    return f"group-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def member(bootstrap: str, group: str) -> Iterator[Member]:
    """Make a member of the test's group; all are closed at the end."""
    with ExitStack() as members:

        def make(**settings: Any) -> Consumer:
            config: dict[str, Any] = {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
            config |= {name.replace("_", "."): value for name, value in settings.items()}
            return members.enter_context(closing(Consumer(config)))

        yield make


def fill(producer: Producer, topic: str, count: int, partitions: int = 1) -> None:
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=number % partitions)
    assert producer.flush(PATIENCE_SECONDS) == 0


def numbers(consumer: Consumer, count: int) -> list[int]:
    """The next `count` values, as numbers."""
    values: list[int] = []

    def enough() -> bool:
        for record in consumer.consume(count - len(values), 0.5):
            assert record.error() is None, record.error()
            value = record.value()
            assert value is not None
            values.append(int(value))
        return len(values) >= count

    wait_until(enough, f"{count} records")
    return values


def shares(members: list[Consumer]) -> list[int]:
    """How many partitions each member holds now; polling drives the rebalance."""
    for consumer in members:
        record = consumer.poll(0.05)
        assert record is None or record.error() is None, record.error()
    return sorted(len(consumer.assignment()) for consumer in members)


@pytest.mark.parametrize("protocol", [CLASSIC, SERVER_SIDE], ids=["classic", "consumer"])
class TestBothProtocols:
    def test_a_member_reads_every_partition_of_what_it_subscribes_to(
        self, member: Member, new_topic: NewTopic, producer: Producer, protocol: dict[str, str]
    ) -> None:
        topic = new_topic(partitions=3)
        fill(producer, topic, 300, partitions=3)
        consumer = member(**protocol)
        consumer.subscribe([topic])
        assert sorted(numbers(consumer, 300)) == list(range(300))

    def test_the_next_member_goes_on_where_the_last_one_committed(
        self, member: Member, topic: str, producer: Producer, protocol: dict[str, str]
    ) -> None:
        fill(producer, topic, 10)
        first = member(**protocol)
        first.subscribe([topic])
        assert numbers(first, 10)[:4] == [0, 1, 2, 3]
        first.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
        first.close()
        second = member(**protocol)
        second.subscribe([topic])
        assert numbers(second, 6) == [4, 5, 6, 7, 8, 9]

    def test_partitions_are_shared_anew_when_members_come_and_go(
        self, member: Member, new_topic: NewTopic, protocol: dict[str, str]
    ) -> None:
        topic = new_topic(partitions=10)
        members = [member(**protocol) for _ in range(3)]
        for consumer in members:
            consumer.subscribe([topic])
        wait_until(lambda: shares(members) == [3, 3, 4], "10 partitions over 3 members")
        members.pop().close()
        wait_until(lambda: shares(members) == [5, 5], "10 partitions over 2 members")

    def test_new_partitions_of_a_topic_reach_the_group(
        self, admin: AdminClient, member: Member, topic: str, protocol: dict[str, str]
    ) -> None:
        consumer = member(**protocol, topic_metadata_refresh_interval_ms=500)
        consumer.subscribe([topic])
        wait_until(lambda: shares([consumer]) == [1])
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENCE_SECONDS)
        wait_until(lambda: shares([consumer]) == [3], "the new partitions")


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_every_assignor_shares_ten_partitions_over_three_members(
    member: Member, new_topic: NewTopic, strategy: str
) -> None:
    topic = new_topic(partitions=10)
    members = [member(**CLASSIC, partition_assignment_strategy=strategy) for _ in range(3)]
    for consumer in members:
        consumer.subscribe([topic])
    wait_until(lambda: shares(members) == [3, 3, 4], "10 partitions over 3 members")
    held = sorted(part.partition for consumer in members for part in consumer.assignment())
    assert held == list(range(10))


def test_committed_offsets_and_their_metadata_come_back(member: Member, topic: str) -> None:
    consumer = member()
    offset = TopicPartition(topic, 0, 7, "why I stopped here")
    consumer.commit(offsets=[offset], asynchronous=False)
    (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=PATIENCE_SECONDS)
    assert (found.offset, found.metadata) == (7, "why I stopped here")


def test_a_member_with_the_same_instance_id_fences_the_first(member: Member, topic: str) -> None:
    """Static membership (KIP-345): the newcomer takes the place, without a rebalance; the old one is told so."""
    first = member(**CLASSIC, group_instance_id="one")
    first.subscribe([topic])
    wait_until(lambda: shares([first]) == [1])
    second = member(**CLASSIC, group_instance_id="one")
    second.subscribe([topic])
    wait_until(lambda: shares([second]) == [1])

    def fenced() -> bool:
        event = first.poll(0.1)
        error = event.error() if event is not None else None
        return error is not None and error.code() == KafkaError._FATAL

    wait_until(fenced, "the fencing of the first")


def test_groups_are_listed_described_reset_and_deleted(
    admin: AdminClient, member: Member, group: str, topic: str
) -> None:
    consumer = member()
    consumer.subscribe([topic])
    wait_until(lambda: shares([consumer]) == [1])
    consumer.commit(offsets=[TopicPartition(topic, 0, 3)], asynchronous=False)

    listed = admin.list_consumer_groups().result(PATIENCE_SECONDS)
    assert group in {entry.group_id for entry in listed.valid}
    description = admin.describe_consumer_groups([group])[group].result(PATIENCE_SECONDS)
    assert [part.partition for part in description.members[0].assignment.topic_partitions] == [0]
    with pytest.raises(KafkaException) as refused:
        admin.delete_consumer_groups([group])[group].result(PATIENCE_SECONDS)
    assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP

    consumer.close()
    moved = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 0, 1)])
    admin.alter_consumer_group_offsets([moved])[group].result(PATIENCE_SECONDS)
    offsets = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(PATIENCE_SECONDS)
    assert [(part.partition, part.offset) for part in offsets.topic_partitions] == [(0, 1)]
    admin.delete_consumer_groups([group])[group].result(PATIENCE_SECONDS)
    listed = admin.list_consumer_groups().result(PATIENCE_SECONDS)
    assert group not in {entry.group_id for entry in listed.valid}
