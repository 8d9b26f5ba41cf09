"""Three brokers of each kind, with every default that a cluster of three can have."""

import contextlib
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Final, Self

from confluent_kafka.admin import AdminClient, ClusterMetadata

from benchmarks.brokers import ApacheKafka, Broker, Highwater, free_port, new_cluster_id
from benchmarks.process_stats import cpu_seconds, memory
from highwater.testing.waiting import wait_until
from highwater.testing.zookeeper import ZooKeeperProcess

BROKERS: Final = 3
IDS: Final = range(1, BROKERS + 1)
TIMEOUT_SECONDS: Final = 120.0


class Cluster(ABC):
    """Three brokers as child processes, each of which can be killed and started again."""

    name: ClassVar[str]

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.brokers: dict[int, Broker] = {}

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    @abstractmethod
    def build(self) -> Sequence[Broker]:
        """Return the brokers, ready to be started, in the order of their ids."""

    def cpu_seconds(self) -> float:
        """Return the processor time of the three."""
        return sum(cpu_seconds(broker.pid) for broker in self.brokers.values())

    def rss_bytes(self) -> int:
        """Return the resident memory of the three."""
        return sum(memory(broker.pid).rss_bytes for broker in self.brokers.values())

    def admin(self, *, without: int | None = None) -> AdminClient:
        """Return a new client that knows all brokers but one."""
        known = [broker.bootstrap for number, broker in self.brokers.items() if number != without]
        return AdminClient({"bootstrap.servers": ",".join(known), "log_level": 0})

    def is_whole(self) -> bool:
        """Whether all brokers are there and every replica is in sync."""
        seen = self.admin().list_topics(timeout=TIMEOUT_SECONDS)
        return len(seen.brokers) == BROKERS and not any(
            len(partition.isrs) < len(partition.replicas)
            for topic in seen.topics.values()
            for partition in topic.partitions.values()
        )

    @contextlib.contextmanager
    def whole_again(self) -> Iterator[None]:
        """Start again what died or stopped inside, and wait until every replica is in sync."""
        yield
        for broker in self.brokers.values():
            if not broker.is_running:
                broker.start()
        wait_until(self.is_whole, f"{self.name} is whole", timeout_seconds=TIMEOUT_SECONDS)

    def __enter__(self) -> Self:
        try:
            self.brokers = dict(zip(IDS, self.build(), strict=True))
            for broker in self.brokers.values():
                broker.prepare()
            with ThreadPoolExecutor(BROKERS) as starters:
                list(starters.map(Broker.start, self.brokers.values()))
            wait_until(self.is_whole, f"{self.name} is whole", timeout_seconds=TIMEOUT_SECONDS)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        for broker in self.brokers.values():
            broker.kill()
        shutil.rmtree(self.directory, ignore_errors=True)


class HighwaterCluster(Cluster):
    """Ours, on a ZooKeeper of its own."""

    name = "Highwater"

    def build(self) -> Sequence[Broker]:
        """Return the brokers, ready to be started, in the order of their ids."""
        self.zookeeper = ZooKeeperProcess(self.directory / "zookeeper").start()
        return [
            Highwater(
                self.directory / str(number), {"broker.id": str(number), "zookeeper.connect": self.zookeeper.address}
            )
            for number in IDS
        ]

    def _remove(self) -> None:
        super()._remove()
        if hasattr(self, "zookeeper"):
            self.zookeeper.kill()


class ApacheKafkaCluster(Cluster):
    """Theirs: each broker is one of three controllers too (KRaft), so that it outlives the death of any."""

    name = "Apache Kafka"

    def build(self) -> Sequence[Broker]:
        """Return the brokers, ready to be started, in the order of their ids."""
        controllers = {number: f"127.0.0.1:{free_port()}" for number in IDS}
        voters = ",".join(f"{number}@{address}" for number, address in controllers.items())
        cluster_id = new_cluster_id()
        return [
            ApacheKafka(
                self.directory / str(number),
                {
                    "offsets.topic.replication.factor": str(BROKERS),
                    "transaction.state.log.replication.factor": str(BROKERS),
                    "transaction.state.log.min.isr": "2",
                },
                node_id=number,
                controller=controllers[number],
                voters=voters,
                cluster_id=cluster_id,
            )
            for number in IDS
        ]


def leader_of(seen: ClusterMetadata, topic: str, partition: int = 0) -> int:
    """Return who leads a partition; -1 is nobody."""
    return int(seen.topics[topic].partitions[partition].leader)
