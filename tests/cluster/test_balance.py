"""`highwater balance` on running brokers: planned, shown, carried out under a throttle, leaders where they belong."""

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeAlias

from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType

from highwater.testing.cluster import ClusterProcesses
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

Look: TypeAlias = Callable[[ClusterProcesses], Any]
RATE_BYTES_PER_SECOND = 2_000_000


def balance(cluster: ClusterProcesses, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "highwater", "balance", "--bootstrap", cluster.bootstrap_servers, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, check=False)


def test_an_uneven_cluster_becomes_even_and_its_leaders_move_back_by_themselves(
    highwater_cluster_factory: Callable[..., ClusterProcesses], look: Look
) -> None:
    cluster = highwater_cluster_factory(3, leader_imbalance_check_interval_seconds=1)
    view = look(cluster)
    topics = [NewTopic("a", num_partitions=4, replica_assignment=[[1, 2]] * 4)]
    topics += [NewTopic("b", num_partitions=2, replica_assignment=[[1, 2]] * 2)]
    for future in view.admin().create_topics(topics).values():
        future.result(PATIENCE_SECONDS)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    for number in range(60):
        producer.produce("a", bytes(100_000), partition=number % 4)
    assert producer.flush(PATIENCE_SECONDS) == 0

    planned = balance(cluster, "--plan", "--json")
    plan = json.loads(planned.stdout)["partitions"]
    assert Counter(broker for move in plan for broker in move["replicas"])[3] == 4, "a third of twelve replicas"
    assert placed(view) == {(1, 2)}, "a plan moves nothing"

    done = balance(cluster, "--yes", "--throttle", str(RATE_BYTES_PER_SECOND))
    assert done.returncode == 0, done.stderr
    assert "the cluster is even" in done.stderr
    held = Counter(broker for name in ("a", "b") for p in view.topic(name).partitions.values() for broker in p.replicas)
    assert held == {1: 4, 2: 4, 3: 4}
    wait_until(lambda: leaders(view) == {1: 2, 2: 2, 3: 2}, "as many leaders on each")
    assert is_unthrottled(view)
    assert "the cluster is even" in balance(cluster, "--yes").stderr

    before = {name: view.leaders(name) for name in ("a", "b")}
    cluster.brokers[3].kill()
    wait_until(lambda: 3 not in leaders(view), "others lead")
    cluster.brokers[3].start()
    wait_until(lambda: {name: view.leaders(name) for name in ("a", "b")} == before, "it leads again what it led")


def placed(view: Any) -> set[tuple[int, ...]]:
    return {tuple(p.replicas) for name in ("a", "b") for p in view.topic(name).partitions.values()}


def leaders(view: Any) -> Counter[int]:
    return Counter(leader for name in ("a", "b") for leader in view.leaders(name).values())


def is_unthrottled(view: Any) -> bool:
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in ("a", "b")]
    asked = [view.admin().describe_configs(resources)]
    asked += [view.admin().describe_configs([ConfigResource(ResourceType.BROKER, str(number))]) for number in (1, 2, 3)]
    return all(
        entry.is_default
        for answer in asked
        for future in answer.values()
        for entry in future.result(PATIENCE_SECONDS).values()
        if "replication.throttled" in entry.name
    )
