"""The three brokers that the matrix runs on, each of which can be killed and comes back."""

import contextlib
import tempfile
from abc import ABC, abstractmethod
from pathlib import Path
from typing import ClassVar

from benchmarks.brokers import ApacheKafka
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.protocol.messages.metadata import MetadataRequest, MetadataResponse
from highwater.testing.broker import BrokerProcess
from highwater.testing.cluster import ClusterProcesses
from highwater.testing.network import ZOOKEEPER, Network
from highwater.testing.waiting import wait_until
from highwater.testing.wire import WireClient
from highwater_spark.exactly_once.brokers import TRANSACTION, Brokers, Coordinator
from highwater_spark.exactly_once.connection import Address, Disconnected
from highwater_spark.exactly_once.security import Security

PATIENCE_SECONDS = 120.0
TRANSACTION_LOG = "__transaction_state"
METADATA_VERSION = 12
FAST_ABORTS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000}


class Target(ABC):
    """Where records go."""

    replicas: ClassVar[int] = 1

    @property
    @abstractmethod
    def bootstrap(self) -> str:
        """Where clients connect."""

    @abstractmethod
    def start(self) -> None:
        """Start it, fresh."""

    @abstractmethod
    def remove(self) -> None:
        """End it and remove what it wrote."""

    @abstractmethod
    def pid_of_leader(self, topic: str) -> int:
        """Return the process that leads partition 0 of a topic."""

    @abstractmethod
    def pid_of_coordinator(self, transactional_id: str) -> int:
        """Return the process that coordinates a transactional id."""

    @abstractmethod
    def revive(self) -> None:
        """Start again the broker that was killed, once it is dead."""

    @abstractmethod
    def restart_all(self) -> None:
        """Stop and start each broker, one after the other."""

    def create(self, topic: str, partitions: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        config = {"min.insync.replicas": "2"} if self.replicas > 2 else {}
        asked = NewTopic(topic, partitions, self.replicas, config=config)
        admin.create_topics([asked])[topic].result(PATIENCE_SECONDS)

    def leader(self, topic: str) -> int:
        """Return the id of the broker that leads partition 0 of a topic, once there is one."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        found: list[int] = []

        def is_there() -> bool:
            described = admin.list_topics(topic, timeout=10).topics[topic].partitions
            found[:] = [described[0].leader] if 0 in described and described[0].leader >= 0 else []
            return bool(found)

        wait_until(is_there, f"a leader of {topic}", timeout_seconds=PATIENCE_SECONDS)
        return found[0]


class SingleBroker(Target):
    def __init__(self) -> None:
        self._broker = BrokerProcess(FAST_ABORTS)

    @property
    def bootstrap(self) -> str:
        return self._broker.bootstrap_servers

    def start(self) -> None:
        self._broker.start()

    def remove(self) -> None:
        self._broker.remove()

    def pid_of_leader(self, topic: str) -> int:  # noqa: ARG002 - there is only one
        return self._broker.pid

    def pid_of_coordinator(self, transactional_id: str) -> int:  # noqa: ARG002 - there is only one
        return self._broker.pid

    def revive(self) -> None:
        wait_until(lambda: not self._broker.is_running, "the broker's death")
        self._broker.start()

    def restart_all(self) -> None:
        self._broker.stop()
        self._broker.start()


class Cluster(Target):
    replicas = 3

    def __init__(self) -> None:
        self.network = Network()
        settings = {
            "transaction.state.log.min.isr": 2,
            "zookeeper.session.timeout.ms": 6000,
            "replica.lag.time.max.ms": 3000,
        }
        self._cluster = ClusterProcesses(3, {**FAST_ABORTS, **settings}, network=self.network)

    @property
    def bootstrap(self) -> str:
        return self._cluster.bootstrap_servers

    def start(self) -> None:
        self.network.__enter__()
        self._cluster.start()

    def remove(self) -> None:
        self._cluster.remove()
        self.network.__exit__(None, None, None)

    def pid_of_leader(self, topic: str) -> int:
        return self._brokers[self.leader(topic)].pid

    def coordinator(self, transactional_id: str) -> int:
        """Return the id of the broker that coordinates a transactional id."""
        with Brokers(self.bootstrap, Security(), PATIENCE_SECONDS) as brokers:
            coordinator = Coordinator(brokers, transactional_id, TRANSACTION)
            located: list[Address] = []

            def is_located() -> bool:
                with contextlib.suppress(Disconnected):
                    located.append(coordinator.locate())
                return bool(located)

            wait_until(is_located, f"the coordinator of {transactional_id}", timeout_seconds=PATIENCE_SECONDS)
        ports = {int(broker.bootstrap_servers.rpartition(":")[2]): number for number, broker in self._brokers.items()}
        return ports[located[0][1]]

    def pid_of_coordinator(self, transactional_id: str) -> int:
        return self._brokers[self.coordinator(transactional_id)].pid

    @property
    def _brokers(self) -> dict[int, BrokerProcess]:
        return self._cluster.brokers

    def cut_from_a_leader(self, number: int, topic: str) -> int:
        """Cut a broker off from another one, which leads a partition of a topic and which it can do without; say which.

        It cannot do without the controller, which says who is in sync.
        """
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})
        found = admin.list_topics(topic, timeout=10)
        leaders = {partition.leader for partition in found.topics[topic].partitions.values()}
        other = min(leaders - {number, found.controller_id, -1})
        self.network.cut(number, other)
        return other

    def kill_after_decision(self, number: int, other: int) -> None:
        """Kill a coordinator when what it has decided is replicated without a broker that it cannot reach."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap, "log_level": 0})

        def is_replicated() -> bool:
            partitions = admin.list_topics(TRANSACTION_LOG, timeout=10).topics[TRANSACTION_LOG].partitions.values()
            return any(other not in partition.isrs for partition in partitions if partition.leader == number)

        wait_until(is_replicated, f"a decision without broker {other}", timeout_seconds=PATIENCE_SECONDS)
        self._brokers[number].kill()

    def lose_session(self, topic: str) -> None:
        """Cut the leader of partition 0 of a topic off from ZooKeeper, until another one leads."""
        before = self.leader(topic)
        self.network.cut(before, ZOOKEEPER)
        wait_until(lambda: self.leader(topic) != before, "another leader", timeout_seconds=PATIENCE_SECONDS)

    def revive(self) -> None:
        wait_until(lambda: len(self._cluster.running) < len(self._brokers), "a broker's death")
        # Who it was cut off from may be the controller by now, and must tell it everything before it is ready.
        self.network.heal()
        for broker in self._brokers.values():
            if not broker.is_running:
                broker.start()
        self.await_whole()

    def restart_all(self) -> None:
        for broker in self._brokers.values():
            broker.stop()
            broker.start()
            self.await_whole()

    def await_whole(self) -> None:
        """Return when nothing is left of what was done to it, and every broker knows.

        One that was cut off from ZooKeeper says that all is as it was, until it hears otherwise.
        """
        self.network.heal()

        def is_whole() -> bool:
            views = [self._view(broker) for broker in self._brokers.values()]
            return views.count(views[0]) == self.replicas and all(
                leader >= 0 and len(in_sync) == self.replicas for leader, in_sync in views[0].values()
            )

        wait_until(is_whole, "every replica in sync", timeout_seconds=PATIENCE_SECONDS)

    def _view(self, broker: BrokerProcess) -> dict[tuple[str, int], tuple[int, frozenset[int]]]:
        """Return who leads each partition and who is in sync, as one broker tells."""
        with WireClient(broker.bootstrap_servers) as client:
            told = client.call(MetadataRequest(topics=None), MetadataResponse, METADATA_VERSION)
        return {
            (topic.name or "", partition.partition_index): (partition.leader_id, frozenset(partition.isr_nodes))
            for topic in told.topics
            for partition in topic.partitions
        }


class Apache(Target):
    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="apache-kafka-")
        self._broker = FastAborts(Path(self._folder.name) / "1")

    @property
    def bootstrap(self) -> str:
        return self._broker.bootstrap

    def start(self) -> None:
        self._broker.prepare()
        self._broker.start()

    def remove(self) -> None:
        self._broker.kill()
        self._folder.cleanup()

    def pid_of_leader(self, topic: str) -> int:  # noqa: ARG002 - there is only one
        return self._broker.pid

    def pid_of_coordinator(self, transactional_id: str) -> int:  # noqa: ARG002 - there is only one
        return self._broker.pid

    def revive(self) -> None:
        wait_until(lambda: not self._broker.is_running, "the broker's death")
        self._broker.kill()
        self._broker.start()

    def restart_all(self) -> None:
        self._broker.stop()
        self._broker.start()


class FastAborts(ApacheKafka):
    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def settings(self) -> dict[str, object]:
        return {**super().settings(), **FAST_ABORTS}


TARGETS: dict[str, type[Target]] = {"single": SingleBroker, "cluster": Cluster, "apache": Apache}


def committed_values(bootstrap: str, topics: list[str]) -> list[int]:
    """Return every value that a read_committed reader finds up to the last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "matrix",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    try:
        left = {
            (topic, partition)
            for topic in topics
            for partition in consumer.list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic].partitions
        }
        consumer.assign([TopicPartition(*place, 0) for place in left])
        values = []
        while left:
            message = consumer.poll(PATIENCE_SECONDS)
            assert message is not None, f"no end of {left}"
            problem = message.error()
            if problem is None:
                values.append(int(message.value() or b""))
            elif problem.name() == "_PARTITION_EOF":
                left.discard((message.topic() or "", message.partition() or 0))
        return values
    finally:
        consumer.close()


def await_stable(bootstrap: str, topics: list[str]) -> None:
    """Return when no transaction is open in any partition: the last stable offset is the end."""
    readers = [
        Consumer({"bootstrap.servers": bootstrap, "group.id": "matrix", "isolation.level": level, "log_level": 0})
        for level in ("read_committed", "read_uncommitted")
    ]
    try:
        places = [
            TopicPartition(topic, partition)
            for topic in topics
            for partition in readers[0].list_topics(topic, timeout=PATIENCE_SECONDS).topics[topic].partitions
        ]

        def is_stable() -> bool:
            ends = [[reader.get_watermark_offsets(place, timeout=30)[1] for place in places] for reader in readers]
            return ends[0] == ends[1]

        wait_until(is_stable, "no open transaction", timeout_seconds=PATIENCE_SECONDS)
    finally:
        for reader in readers:
            reader.close()
