"""A move is held back by its throttle, on running brokers, and arrives once the throttle is gone."""

from collections.abc import Callable
from typing import Any, TypeAlias

from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from highwater.cli.cluster import Cluster
from highwater.cli.reassign import reassign
from highwater.testing.cluster import ClusterProcesses
from highwater.testing.nemesis import seen_by
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

Look: TypeAlias = Callable[[ClusterProcesses], Any]
TOPIC = "orders"
SIZE_BYTES = 20_000_000
RATE_BYTES_PER_SECOND = 100_000


def alter(view: Any, kind: ResourceType, name: str, **configs: str) -> None:
    """Set, or with an empty value delete, settings of a topic or a broker."""
    entries = [
        ConfigEntry(
            key.replace("_", "."),
            value or None,
            incremental_operation=AlterConfigOpType.SET if value else AlterConfigOpType.DELETE,
        )
        for key, value in configs.items()
    ]
    resource = ConfigResource(kind, name, incremental_configs=entries)
    for future in view.admin().incremental_alter_configs([resource]).values():
        future.result(PATIENCE_SECONDS)


def test_a_throttled_move_waits_and_replicas_are_raised_and_lowered(
    highwater_cluster: ClusterProcesses, look: Look
) -> None:
    cluster, view = highwater_cluster, look(highwater_cluster)
    new_topic = NewTopic(TOPIC, num_partitions=1, replica_assignment=[[1]])
    view.admin().create_topics([new_topic])[TOPIC].result(PATIENCE_SECONDS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for _ in range(SIZE_BYTES // 100_000):
        producer.produce(TOPIC, bytes(100_000))
        producer.poll(0)
    assert producer.flush(PATIENCE_SECONDS) == 0

    alter(view, ResourceType.TOPIC, TOPIC, leader_replication_throttled_replicas="*")
    alter(view, ResourceType.BROKER, "1", leader_replication_throttled_rate=str(RATE_BYTES_PER_SECOND))
    reassign([TOPIC], cluster=Cluster(cluster.bootstrap_servers), replicas="1,2", yes=True)
    follower = cluster.brokers[2].data_dir / f"{TOPIC}-0" / "00000000000000000000.log"
    wait_until(lambda: follower.exists() and follower.stat().st_size > 0, "the new replica has something")
    assert seen_by(cluster.brokers[1], TOPIC).isr[0] == [1], "at this rate it takes minutes"
    assert follower.stat().st_size < SIZE_BYTES

    alter(view, ResourceType.BROKER, "1", leader_replication_throttled_rate="")
    wait_until(lambda: set(seen_by(cluster.brokers[1], TOPIC).isr[0]) == {1, 2}, "the move arrives")
    reassign([TOPIC], cluster=Cluster(cluster.bootstrap_servers), replicas="2", yes=True)
    wait_until(lambda: seen_by(cluster.brokers[1], TOPIC).isr[0] == [2], "one replica again, elsewhere")
    wait_until(lambda: not (cluster.brokers[1].data_dir / f"{TOPIC}-0").exists(), "and the old one is gone")
