"""Groups when the broker is killed or paused, when members restart, and while a group changes its protocol."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from highwater.model.errors import ErrorCode
from highwater.testing.group_requests import coordinator_of
from highwater.testing.groups_in_every_state import GroupsInEveryState
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until
from highwater.testing.wire_consumer_group import WireConsumerGroup

if TYPE_CHECKING:
    from highwater.testing.broker import BrokerProcess
    from highwater.testing.plugin import BrokerFactory

TOPIC = "orders"
PARTITIONS = 6
PROTOCOLS = ["classic", "consumer"]


class Member:
    """A consumer that remembers every rebalance it went through."""

    def __init__(self, bootstrap: str, group: str, protocol: str, **settings: Any) -> None:
        config: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 200,
        }
        if protocol == "classic":
            config["session.timeout.ms"] = 10_000
        config |= {name.replace("_", "."): value for name, value in settings.items()}
        self.consumer = Consumer(config)
        self.rebalances = 0
        self.consumer.subscribe([TOPIC], on_assign=self._note, on_revoke=self._note, on_lost=self._note)

    def _note(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        del consumer, partitions
        self.rebalances += 1

    def close(self) -> None:
        self.consumer.close()

    def poll(self) -> None:
        self.consumer.poll(0.05)

    def share(self) -> frozenset[int]:
        return frozenset(partition.partition for partition in self.consumer.assignment())


@pytest.fixture
def broker(start_broker: BrokerFactory) -> BrokerProcess:
    """A broker, and a topic for members to share."""
    running = start_broker()
    make_topic(running)
    return running


def make_topic(broker: BrokerProcess) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(PATIENCE_SECONDS)


def poll_on(members: list[Member], seconds: float) -> None:
    """Let members go on for some heartbeats: the only way to see that nothing happens."""
    deadline = time.monotonic() + seconds

    def is_over() -> bool:
        for member in members:
            member.poll()
        return time.monotonic() > deadline

    wait_until(is_over, "the time")


def wait_for_shares(members: list[Member], shares: list[int]) -> None:
    def shared() -> bool:
        for member in members:
            member.poll()
        owned = [member.share() for member in members]
        return sorted(map(len, owned)) == shares and len(frozenset().union(*owned)) == sum(shares)

    wait_until(shared, f"shares of {shares}", timeout_seconds=2 * PATIENCE_SECONDS)


def commit(member: Member, offset: int) -> None:
    offsets = [TopicPartition(TOPIC, partition, offset) for partition in member.share()]
    member.consumer.commit(offsets=offsets, asynchronous=False)


def committed(bootstrap: str, group: str) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])
    answer = asked[group].result(PATIENCE_SECONDS)
    return {each.partition: each.offset for each in answer.topic_partitions or ()}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_members_carry_on_after_kill_9(broker: BrokerProcess, protocol: str) -> None:
    """Their generation stands, nobody rebalances, and every committed offset is there."""
    bootstrap = broker.bootstrap_servers
    with closing(Member(bootstrap, "tea", protocol)) as ana, closing(Member(bootstrap, "tea", protocol)) as ben:
        wait_for_shares([ana, ben], [3, 3])
        for member in (ana, ben):
            commit(member, 5)
        before = (ana.share(), ben.share(), ana.rebalances, ben.rebalances)
        broker.kill()
        broker.start()
        assert committed(bootstrap, "tea") == dict.fromkeys(range(PARTITIONS), 5)

        def both_commit() -> bool:
            for member in (ana, ben):
                member.poll()
                commit(member, 7)
            return True

        wait_until(both_commit, "commits after the restart")
        poll_on([ana, ben], 4)
        assert (ana.share(), ben.share(), ana.rebalances, ben.rebalances) == before
        assert committed(bootstrap, "tea") == dict.fromkeys(range(PARTITIONS), 7)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_kill_9_in_the_middle_of_a_rebalance_costs_nothing_but_time(broker: BrokerProcess, protocol: str) -> None:
    bootstrap = broker.bootstrap_servers
    with closing(Member(bootstrap, "tea", protocol)) as ana:
        wait_for_shares([ana], [PARTITIONS])
        with closing(Member(bootstrap, "tea", protocol)) as ben:
            ben.poll()
            broker.kill()
            broker.start()
            wait_for_shares([ana, ben], [3, 3])


def test_a_coordinator_killed_in_any_state_of_a_group_loses_nothing(broker: BrokerProcess) -> None:
    scene = GroupsInEveryState(TOPIC)
    scene.set_up([broker.bootstrap_servers])
    broker.kill()
    broker.start()
    scene.check_all_carry_on([broker.bootstrap_servers])


def test_a_groups_settings_survive_kill_9(broker: BrokerProcess) -> None:
    change = ConfigEntry("consumer.session.timeout.ms", "50000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, "tea", incremental_configs=[change])

    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.incremental_alter_configs([resource])[resource].result(PATIENCE_SECONDS)
    broker.kill()
    broker.start()
    settings = admin.describe_configs([resource])[resource].result(PATIENCE_SECONDS)
    assert settings["consumer.session.timeout.ms"].value == "50000"


def test_members_survive_a_broker_that_was_stopped_for_longer_than_their_sessions(start_broker: BrokerFactory) -> None:
    """What members sent while it slept is read before anybody is blamed for silence.

    A librdkafka member of the classic protocol counts its session too, and leaves by itself.
    """
    broker = start_broker(
        group_consumer_session_timeout_ms=3_000,
        group_consumer_min_session_timeout_ms=1_000,
    )
    bootstrap = broker.bootstrap_servers
    make_topic(broker)
    with closing(Member(bootstrap, "tea", "consumer")) as ana:
        wait_for_shares([ana], [PARTITIONS])
        rebalances = ana.rebalances
        broker.pause()
        poll_on([ana], 5)
        broker.resume()
        poll_on([ana], 3)
        assert (len(ana.share()), ana.rebalances) == (PARTITIONS, rebalances)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_static_member_restarts_without_a_rebalance(broker: BrokerProcess, protocol: str) -> None:
    bootstrap = broker.bootstrap_servers
    with closing(Member(bootstrap, "tea", protocol, group_instance_id="seat-1")) as ana:
        ben = Member(bootstrap, "tea", protocol, group_instance_id="seat-2")
        wait_for_shares([ana, ben], [3, 3])
        had, rebalances = ben.share(), ana.rebalances
        ben.close()
        with closing(Member(bootstrap, "tea", protocol, group_instance_id="seat-2")) as again:
            wait_for_shares([ana, again], [3, 3])
            assert again.share() == had
            assert ana.rebalances == rebalances


def test_a_group_moves_to_the_newer_protocol_and_back_while_it_reads(broker: BrokerProcess) -> None:
    """Every record is read by some member, whichever protocol it speaks."""
    bootstrap = broker.bootstrap_servers
    cooperative = {"partition_assignment_strategy": "cooperative-sticky"}
    with closing(Member(bootstrap, "tea", "classic", **cooperative)) as old:
        wait_for_shares([old], [PARTITIONS])
        new = Member(bootstrap, "tea", "consumer")
        wait_for_shares([old, new], [3, 3])
        with closing(Member(bootstrap, "tea", "classic", **cooperative)) as late:
            wait_for_shares([old, new, late], [2, 2, 2])
            new.close()
            wait_for_shares([old, late], [3, 3])
    with closing(Member(bootstrap, "tea", "consumer")) as last:
        wait_for_shares([last], [PARTITIONS])


def test_an_eager_group_moves_to_the_newer_protocol_too(broker: BrokerProcess) -> None:
    bootstrap = broker.bootstrap_servers
    with closing(Member(bootstrap, "tea", "classic", partition_assignment_strategy="range")) as old:
        wait_for_shares([old], [PARTITIONS])
        with closing(Member(bootstrap, "tea", "consumer")) as new:
            wait_for_shares([old, new], [3, 3])


@pytest.mark.parametrize("policy", ["disabled", "upgrade", "downgrade"])
def test_a_group_changes_its_protocol_only_as_the_policy_allows(start_broker: BrokerFactory, policy: str) -> None:
    """The test before this one has both ways open, as they are by default."""
    broker = start_broker(group_consumer_migration_policy=policy)
    make_topic(broker)
    bootstrap = broker.bootstrap_servers
    with closing(Member(bootstrap, "up", "classic")) as old, coordinator_of("up", [bootstrap]) as wire:
        wait_for_shares([old], [PARTITIONS])
        refused = WireConsumerGroup(wire, "up").join("new", TOPIC).error_code
        assert refused == (ErrorCode.NONE if policy == "upgrade" else ErrorCode.GROUP_ID_NOT_FOUND)
        assert type_of(bootstrap, "up") == ("consumer" if policy == "upgrade" else "classic")
    new = Member(bootstrap, "down", "consumer")
    wait_for_shares([new], [PARTITIONS])
    with closing(Member(bootstrap, "down", "classic", session_timeout_ms=6_000)) as late:
        wait_for_shares([new, late], [3, 3])
        new.close()
        wait_for_shares([late], [PARTITIONS])
        assert type_of(bootstrap, "down") == ("classic" if policy == "downgrade" else "consumer")


def type_of(bootstrap: str, group: str) -> str:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    listed = admin.list_consumer_groups().result(PATIENCE_SECONDS)
    (kind,) = (str(each.type.name) for each in listed.valid if each.group_id == group)
    return kind.lower()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_deleted_topics_offsets_go_with_it(broker: BrokerProcess, protocol: str) -> None:
    bootstrap = broker.bootstrap_servers
    with closing(Member(bootstrap, "tea", protocol)) as ana:
        wait_for_shares([ana], [PARTITIONS])
        commit(ana, 5)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.delete_topics([TOPIC])[TOPIC].result(PATIENCE_SECONDS)
    assert committed(bootstrap, "tea") == {}
    broker.kill()
    broker.start()
    assert committed(bootstrap, "tea") == {}


def test_committed_offsets_never_go_back_over_kill_9(broker: BrokerProcess) -> None:
    """A member commits on and on; after each kill, what was acknowledged is there or more."""
    bootstrap = broker.bootstrap_servers
    with closing(Member(bootstrap, "tea", "classic")) as ana:
        wait_for_shares([ana], [PARTITIONS])
        offset = 0
        for _ in range(3):
            for _ in range(50):
                offset += 1
                commit(ana, offset)
            broker.kill()
            broker.start()
            assert committed(bootstrap, "tea") == dict.fromkeys(range(PARTITIONS), offset)
