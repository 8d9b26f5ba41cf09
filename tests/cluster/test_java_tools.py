"""Apache Kafka's own tools for clusters: assignments by hand, moves, elections, what is under-replicated."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource, ResourceType

from highwater.testing.cluster import ClusterProcesses
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

Look: TypeAlias = Callable[[ClusterProcesses], Any]
TOPICS = "org.apache.kafka.tools.TopicCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
THROTTLED_REPLICAS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
THROTTLED_RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"


def throttled(view: Any) -> set[str]:
    """Return what the settings that hold moves back are on the topic and on every broker; nothing if not set."""
    found: set[str] = set()
    for kind, name, keys in [
        (ResourceType.TOPIC, "a", THROTTLED_REPLICAS),
        *((ResourceType.BROKER, str(number), THROTTLED_RATES) for number in view.cluster.brokers),
    ]:
        (asked,) = view.admin().describe_configs([ConfigResource(kind, name)]).values()
        configs = asked.result(PATIENCE_SECONDS)
        found |= {"" if configs[key].is_default else configs[key].value for key in keys}
    return found


def test_kafkas_tools_move_elect_and_describe(
    highwater_cluster: ClusterProcesses, look: Look, java: Callable[..., str], tmp_path: Path
) -> None:
    cluster, view = highwater_cluster, look(highwater_cluster)
    server = ("--bootstrap-server", cluster.bootstrap_servers)
    java(TOPICS, *server, "--create", "--topic", "a", "--replica-assignment", "1:2,2:3")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number in range(100):
        producer.produce("a", b"%d" % number, partition=number % 2)
    assert producer.flush(30) == 0

    plan = tmp_path / "plan.json"
    moves = {0: [3, 1, 2], 1: [1]}
    partitions = [{"topic": "a", "partition": index, "replicas": brokers} for index, brokers in moves.items()]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}), encoding="utf-8")
    throttle = ("--throttle", "10000000")
    begun = java(REASSIGN, *server, "--reassignment-json-file", str(plan), "--execute", *throttle)
    assert "Successfully started" in begun
    assert throttled(view) == {"0:1,0:2,1:2,1:3", "0:3,1:1", "10000000"}

    def placed() -> dict[int, list[int]]:
        return {index: list(partition.replicas) for index, partition in view.topic("a").partitions.items()}

    wait_until(lambda: placed() == moves, "the partitions have moved")
    verified = java(REASSIGN, *server, "--reassignment-json-file", str(plan), "--verify")
    assert verified.count("is completed") == 2
    assert "Clearing topic-level throttles" in verified
    wait_until(lambda: throttled(view) == {""}, "the throttles are gone")
    wait_until(lambda: not (cluster.brokers[2].data_dir / "a-1").exists(), "the old replica is deleted")

    elected = java(ELECT, *server, "--election-type", "preferred", "--all-topic-partitions")
    assert "Successfully completed leader election (PREFERRED) for partitions a-0" in elected
    assert view.leaders("a") == {0: 3, 1: 1}

    cluster.brokers[1].kill()
    wait_until(lambda: view.leaders("a", cluster.running[0])[1] == -1, "partition 1 has lost its only replica")
    assert "Partition: 1\tLeader: none" in java(TOPICS, *server, "--describe", "--unavailable-partitions")
    assert "Partition: 0\tLeader: 3" in java(TOPICS, *server, "--describe", "--under-replicated-partitions")
