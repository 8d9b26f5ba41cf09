"""Throttled replicas wait once the rate is used up; those in sync, and those that nobody named, never do."""

from types import SimpleNamespace
from typing import Any, cast

from highwater.broker.partition import Partition
from highwater.broker.replication_throttles import ReplicationThrottles
from highwater.config.broker_config import BrokerConfig
from highwater.config.topic_settings import TopicSettings
from highwater.model.ids import BrokerId, TopicPartition

ME, IN_SYNC, BEHIND = BrokerId(1), BrokerId(2), BrokerId(3)


def throttles_and_partition(**overrides: str) -> tuple[ReplicationThrottles, Partition]:
    config = BrokerConfig({"leader.replication.throttled.rate": "1000", "follower.replication.throttled.rate": "1000"})
    throttles = ReplicationThrottles(ME, config, now_ms=lambda: 1_000_000)
    partition = cast(
        "Any",
        SimpleNamespace(name=TopicPartition("orders", 0), in_sync_replicas=(ME, IN_SYNC), is_caught_up=False),
    )
    settings = {name.replace("_", "."): value for name, value in overrides.items()}
    throttles.name(partition, TopicSettings.resolve(config, settings))
    return throttles, partition


def test_a_leader_holds_back_followers_that_are_not_in_sync() -> None:
    throttles, partition = throttles_and_partition(leader_replication_throttled_replicas="0:1")
    assert not throttles.holds_back_sending(partition, BEHIND)
    throttles.sent(partition, IN_SYNC, 1_000_000)
    assert not throttles.holds_back_sending(partition, BEHIND), "what those in sync get does not count"
    throttles.sent(partition, BEHIND, 2_001)
    assert throttles.holds_back_sending(partition, BEHIND)
    assert not throttles.holds_back_sending(partition, IN_SYNC)


def test_a_follower_holds_back_until_it_has_caught_up() -> None:
    throttles, partition = throttles_and_partition(follower_replication_throttled_replicas="*")
    throttles.fetched(partition, 2_001)
    assert throttles.holds_back_fetching(partition)
    partition.is_caught_up = True
    assert not throttles.holds_back_fetching(partition)


def test_what_is_not_named_is_not_throttled() -> None:
    throttles, partition = throttles_and_partition(
        leader_replication_throttled_replicas="1:1", follower_replication_throttled_replicas="0:2"
    )
    throttles.sent(partition, BEHIND, 1_000_000)
    throttles.fetched(partition, 1_000_000)
    assert not throttles.holds_back_sending(partition, BEHIND)
    assert not throttles.holds_back_fetching(partition)
