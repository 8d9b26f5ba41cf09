"""Apache Kafka's own tools for clusters: assignments by hand, moves, elections, what is under-replicated."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from confluent_kafka import Producer

from highwater.testing.cluster import ClusterProcesses
from highwater.testing.waiting import wait_until

Look: TypeAlias = Callable[[ClusterProcesses], Any]
TOPICS = "org.apache.kafka.tools.TopicCommand"
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT = "org.apache.kafka.tools.LeaderElectionCommand"


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
    assert "Successfully started" in java(REASSIGN, *server, "--reassignment-json-file", str(plan), "--execute")

    def placed() -> dict[int, list[int]]:
        return {index: list(partition.replicas) for index, partition in view.topic("a").partitions.items()}

    wait_until(lambda: placed() == moves, "the partitions have moved")
    verified = java(REASSIGN, *server, "--reassignment-json-file", str(plan), "--verify")
    assert verified.count("is completed") == 2
    wait_until(lambda: not (cluster.brokers[2].data_dir / "a-1").exists(), "the old replica is deleted")

    elected = java(ELECT, *server, "--election-type", "preferred", "--all-topic-partitions")
    assert "Successfully completed leader election (PREFERRED) for partitions a-0" in elected
    assert view.leaders("a") == {0: 3, 1: 1}

    cluster.brokers[1].kill()
    wait_until(lambda: view.leaders("a", cluster.running[0])[1] == -1, "partition 1 has lost its only replica")
    assert "Partition: 1\tLeader: none" in java(TOPICS, *server, "--describe", "--unavailable-partitions")
    assert "Partition: 0\tLeader: 3" in java(TOPICS, *server, "--describe", "--under-replicated-partitions")
