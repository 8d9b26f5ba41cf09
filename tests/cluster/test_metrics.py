"""What an operator watches while a replica falls behind and comes back."""

from __future__ import annotations

import socket
import urllib.request
from typing import TYPE_CHECKING, Any

from confluent_kafka import Producer

from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable

    from highwater.testing.broker import BrokerProcess
    from highwater.testing.cluster import ClusterProcesses

TOPIC = "ledger"


def watched(broker: BrokerProcess) -> str:
    """Let a broker serve its metrics from its next start on; return where."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        address = f"127.0.0.1:{found.getsockname()[1]}"
    broker.settings["metrics.listener"] = address
    return address


def read(address: str, name: str) -> float:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE_SECONDS) as answer:
        lines = dict(line.rsplit(" ", 1) for line in answer.read().decode().splitlines() if not line.startswith("#"))
    return float(lines[name])


def test_a_replica_that_lags_shows_and_so_does_its_return(
    highwater_cluster_factory: Callable[..., ClusterProcesses], look: Callable[[ClusterProcesses], Any]
) -> None:
    """It is paused for longer than replica.lag.time.max.ms, and for less than its session."""
    cluster = highwater_cluster_factory(2, replica_lag_time_max_ms=1_000, zookeeper_session_timeout_ms=30_000)
    leader, follower = cluster.brokers.values()
    address = watched(leader)
    leader.stop()
    leader.start()
    view = look(cluster)
    wait_until(lambda: len(view.live(follower)) == 2, "both are there")
    view.create(TOPIC, 6, 2)
    wait_until(lambda: read(address, "highwater_under_replicated_partitions") == 0, "all in sync")
    assert read(address, "highwater_isr_shrinks_total") == 0
    led = [partition for partition, owner in view.leaders(TOPIC).items() if owner == min(cluster.brokers)]
    follower.pause()
    producer = Producer({"bootstrap.servers": leader.bootstrap_servers, "acks": 1})
    for partition in led:  # a replica that has all there is does not lag, however silent it is
        producer.produce(TOPIC, b"one more", partition=partition)
    producer.flush(PATIENCE_SECONDS)
    wait_until(lambda: read(address, "highwater_isr_shrinks_total") == len(led), "the leader does without it")
    assert read(address, "highwater_under_replicated_partitions") == len(led)
    follower.resume()
    wait_until(lambda: read(address, "highwater_under_replicated_partitions") == 0, "it has caught up")
    assert read(address, "highwater_isr_expansions_total") >= len(led)
    assert read(address, "highwater_offline_partitions") == 0
