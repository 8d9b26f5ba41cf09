"""Groups whose coordinator dies: another takes over, members carry on, nothing that was committed is lost."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from highwater.model.coordinator_partition import partition_for
from highwater.testing.group_requests import coordinator_of
from highwater.testing.groups_in_every_state import STABLE, GroupsInEveryState
from highwater.testing.waiting import wait_until
from highwater.testing.wire_consumer_group import WireConsumerGroup

if TYPE_CHECKING:
    from collections.abc import Callable

    from highwater.testing.cluster import ClusterProcesses

TOPIC = "orders"
PARTITIONS = 6
OFFSETS_TOPIC = "__consumer_offsets"
PROTOCOLS = ("classic", "consumer")
GROUPS = {"classic": "tea", "consumer": "coffee"}
ASK_SECONDS = 5


class Member:
    """A consumer that remembers every rebalance it went through."""

    def __init__(self, bootstrap: str, protocol: str) -> None:
        self.config: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": GROUPS[protocol],
            "group.protocol": protocol,
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
        session = {"session.timeout.ms": 60_000} if protocol == "classic" else {}
        self.consumer = Consumer(self.config | session)
        self.rebalances = 0
        self.consumer.subscribe([TOPIC], on_assign=self._note, on_revoke=self._note, on_lost=self._note)

    def _note(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        del consumer, partitions
        self.rebalances += 1

    def close(self) -> None:
        self.consumer.close()

    def share(self) -> int:
        self.consumer.poll(0.05)
        return len(self.consumer.assignment())

    def commit(self, offset: int) -> None:
        """Commit all that the member has; librdkafka looks for the coordinator until there is one."""
        self.consumer.poll(0.05)
        offsets = [TopicPartition(TOPIC, each.partition, offset) for each in self.consumer.assignment()]

        def is_committed() -> bool:
            try:
                self.consumer.commit(offsets=offsets, asynchronous=False)
            except KafkaException:
                return False
            return True

        wait_until(is_committed, f"a commit of {offset}")


def committed(config: dict[str, Any]) -> dict[int, int]:
    """What the group has committed, as a consumer is told that has never heard of the coordinator before."""
    with closing(Consumer(config)) as reader:
        asked = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        try:
            return {each.partition: each.offset for each in reader.committed(asked, timeout=ASK_SECONDS)}
        except KafkaException:
            return {}


@pytest.fixture
def cluster(highwater_cluster_factory: Callable[..., ClusterProcesses]) -> ClusterProcesses:
    return highwater_cluster_factory(3, min_insync_replicas=2, zookeeper_session_timeout_ms=4000)


def test_members_carry_on_when_their_coordinator_is_killed(
    cluster: ClusterProcesses, look: Callable[[ClusterProcesses], Any]
) -> None:
    """Their generation stands, nobody rebalances, and every committed offset is there."""
    view = look(cluster)
    view.create(TOPIC, PARTITIONS, 3)
    pairs = {each: [Member(cluster.bootstrap_servers, each) for _ in range(2)] for each in PROTOCOLS}
    members = [member for pair in pairs.values() for member in pair]

    def shares() -> list[int]:
        return [member.share() for member in members]

    wait_until(lambda: shares() == [3, 3, 3, 3], "three each")
    rebalances = [member.rebalances for member in members]
    for offset, protocol in enumerate(PROTOCOLS, start=5):
        for member in members:
            member.commit(offset)
        coordinator = view.leaders(OFFSETS_TOPIC)[partition_for(GROUPS[protocol])]
        cluster.brokers[coordinator].kill()
        for pair in pairs.values():
            expected = dict.fromkeys(range(PARTITIONS), offset)
            wait_until(
                lambda: committed(pair[0].config) == expected,  # noqa: B023 - it is called here and now
                "another coordinator knows all that was committed",
            )
        for member in members:
            member.commit(offset)
        cluster.brokers[coordinator].start()
        wait_until(lambda: len(view.live()) == 3, "it is back")
    assert shares() == [3, 3, 3, 3]
    assert [member.rebalances for member in members] == rebalances
    for member in members:
        member.close()


def test_a_groups_settings_reach_its_coordinator_whoever_that_is(
    cluster: ClusterProcesses, look: Callable[[ClusterProcesses], Any]
) -> None:
    """Before and after fail-over: they were given to one broker, which told the others."""
    view = look(cluster)
    view.create(TOPIC, 1, 3)
    key = "consumer.heartbeat.interval.ms"
    entry = ConfigEntry(key, "7000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, STABLE, incremental_configs=[entry])
    for answer in view.admin().incremental_alter_configs([resource]).values():
        answer.result(ASK_SECONDS)

    def told_interval_ms() -> int:
        with coordinator_of(STABLE, [broker.bootstrap_servers for broker in cluster.running]) as wire:
            return WireConsumerGroup(wire, STABLE).join("ana", TOPIC).heartbeat_interval_ms

    wait_until(lambda: told_interval_ms() == 7_000, "the coordinator has read it")
    cluster.brokers[view.leaders(OFFSETS_TOPIC)[partition_for(STABLE)]].kill()
    assert told_interval_ms() == 7_000


def test_a_coordinator_killed_in_any_state_of_a_group_loses_nothing(
    cluster: ClusterProcesses, look: Callable[[ClusterProcesses], Any]
) -> None:
    view = look(cluster)
    view.create(TOPIC, PARTITIONS, 3)
    scene = GroupsInEveryState(TOPIC)
    scene.set_up(cluster.bootstrap_servers.split(","))
    coordinator = view.leaders(OFFSETS_TOPIC)[partition_for(STABLE)]
    cluster.brokers[coordinator].kill()
    scene.check_all_carry_on([broker.bootstrap_servers for broker in cluster.running])
