"""Too few replicas in sync, on real processes: clients are told, and who lacks what was acknowledged does not lead."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import NewTopic

from highwater.testing.broker import BrokerProcess
from highwater.testing.cluster import ClusterProcesses
from highwater.testing.nemesis import seen_by
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

Look: TypeAlias = Callable[[ClusterProcesses], Any]


def write(cluster: ClusterProcesses, topic: str, **settings: object) -> int:
    """Write one record with acks=all and without retries; return the error that the client was told, or 0."""
    told: list[int] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        told.append(0 if error is None else error.code())

    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0, "retries": 0, **settings})
    producer.produce(topic, b"value", on_delivery=delivered)
    assert producer.flush(PATIENCE_SECONDS) == 0
    return told[0]


def create(view: Any, topic: str, replicas: list[int], **configs: str) -> None:
    config = {name.replace("_", "."): value for name, value in configs.items()}
    wanted = NewTopic(topic, num_partitions=1, replica_assignment=[replicas], config=config)
    view.admin().create_topics([wanted])[topic].result(PATIENCE_SECONDS)


def in_sync(topic: str, broker: BrokerProcess, expected: set[int]) -> bool:
    return set(seen_by(broker, topic).isr[0]) == expected


def leads(topic: str, broker: BrokerProcess, expected: int) -> bool:
    return seen_by(broker, topic).leaders == {0: expected}


def test_writers_are_told_and_only_an_unclean_topic_goes_on(
    highwater_cluster_factory: Callable[..., ClusterProcesses], look: Look
) -> None:
    cluster = highwater_cluster_factory(3, replica_lag_time_max_ms=2000, zookeeper_session_timeout_ms=6000)
    view, (one, two, three) = look(cluster), cluster.brokers.values()
    create(view, "strict", [1, 2, 3], min_insync_replicas="3")
    create(view, "clean", [3, 2], min_insync_replicas="1")
    create(view, "unclean", [3, 2], min_insync_replicas="1", unclean_leader_election_enable="true")

    # A follower is frozen: it is in sync at first, so that the append happens, and then has lagged for too long.
    two.pause()
    assert write(cluster, "strict") == KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    wait_until(partial(in_sync, "strict", one, {1, 3}), "the slow follower is out of sync")
    # Now there are too few before the append.
    assert write(cluster, "strict") == KafkaError.NOT_ENOUGH_REPLICAS
    two.resume()
    wait_until(partial(in_sync, "strict", one, {1, 2, 3}), "it is in sync again")
    assert write(cluster, "strict") == 0

    # The only replica that has everything dies.
    two.kill()
    for topic in ("clean", "unclean"):
        wait_until(partial(in_sync, topic, one, {3}), "the leader is alone")
        assert write(cluster, topic) == 0
    three.kill()
    two.start()
    wait_until(partial(leads, "unclean", one, 2), "a replica leads that may lack records")
    assert leads("clean", one, -1)
    three.start()
    wait_until(partial(leads, "clean", one, 3), "the one that has everything leads again")
