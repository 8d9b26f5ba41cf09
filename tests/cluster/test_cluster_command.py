"""`highwater cluster`: started, looked at, broken, mended and stopped, as somebody does at a terminal."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.testing.ports import free_port, is_free
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

HIGHWATER = (sys.executable, "-m", "highwater")


class Running:
    """A `cluster up` of three brokers."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port = free_port()
        while not all(is_free(self.port + number) for number in range(3)):
            self.port = free_port()
        self.output = directory.with_suffix(".out")
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [*HIGHWATER, "cluster", "up", "--base-port", str(self.port), "--dir", str(directory)],
                stdout=output,
                stderr=output,
            )
        wait_until(lambda: self.text.count("highwater ready") == 3, "three brokers are ready")

    @property
    def text(self) -> str:
        return self.output.read_text()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [*HIGHWATER, "cluster", *arguments, "--dir", str(self.directory)]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS)

    def status(self) -> Any:
        return json.loads(self.run("status", "--json").stdout)


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    cluster = Running(tmp_path / "cluster")
    try:
        yield cluster
    finally:
        cluster.process.send_signal(signal.SIGINT)
        assert cluster.process.wait(PATIENCE_SECONDS) == 0
    assert cluster.text.count("stopped") == 3


def test_a_cluster_is_started_looked_at_broken_and_mended(running: Running) -> None:
    bootstrap = f"127.0.0.1:{running.port}"
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic("orders", num_partitions=1, replica_assignment=[[1, 2, 3]])])["orders"].result(30)
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    for _ in range(10):
        producer.produce("orders", b"value")
    assert producer.flush(PATIENCE_SECONDS) == 0

    def replicas() -> dict[int, tuple[object, ...]]:
        return {
            replica["broker"]: (
                replica["role"],
                replica["in_sync"],
                replica["log_end_offset"],
                replica["high_watermark"],
                replica["epoch"],
            )
            for replica in running.status()["replicas"]
        }

    whole = {1: ("leader", True, 10, 10, 0), 2: ("follower", True, 10, 10, 0), 3: ("follower", True, 10, 10, 0)}
    wait_until(lambda: replicas() == whole, "every replica has everything, as it says itself")
    assert sorted(running.status()["brokers"]) == ["1", "2", "3"]

    running.run("kill", "2")
    wait_until(lambda: running.status()["under_replicated"] == ["orders-0"], "a replica is missing")
    assert replicas()[2] == ("follower", False, None, None, None)
    assert "1 partition under-replicated" in running.run("status", "--under-replicated").stderr
    wait_until(lambda: "broker 2 ended" in running.text, "the terminal says so")
    running.run("start", "2")
    wait_until(lambda: replicas()[2][:4] == ("follower", True, 10, 10), "it is back and has everything")
