"""What tests of a cluster share: a view of it as a client has it."""

from collections.abc import Callable

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ClusterMetadata, NewTopic, TopicMetadata

from highwater.testing.broker import BrokerProcess
from highwater.testing.cluster import ClusterProcesses

TIMEOUT_SECONDS = 20
ASK_SECONDS = 5
ATTEMPTS = 12


class View:
    """A cluster as its brokers describe it."""

    def __init__(self, cluster: ClusterProcesses) -> None:
        self.cluster = cluster
        self._admins: dict[str, AdminClient] = {}

    def admin(self, broker: BrokerProcess | None = None) -> AdminClient:
        servers = (broker or self.cluster.running[0]).bootstrap_servers
        if servers not in self._admins:
            self._admins[servers] = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        return self._admins[servers]

    def metadata(self, broker: BrokerProcess | None = None, topic: str | None = None) -> ClusterMetadata:
        """Ask until somebody answers: librdkafka asks any broker it knows, one that is paused or dead included.

        A new client knows nobody but the broker that it is told of.
        """
        for attempt in range(ATTEMPTS):
            try:
                return self.admin(broker).list_topics(topic, timeout=ASK_SECONDS)
            except KafkaException:
                if attempt == ATTEMPTS - 1:
                    raise
                self._admins.clear()
        raise AssertionError

    def controller(self, broker: BrokerProcess | None = None) -> int:
        return int(self.metadata(broker).controller_id)

    def live(self, broker: BrokerProcess | None = None) -> set[int]:
        return set(self.metadata(broker).brokers)

    def topic(self, name: str, broker: BrokerProcess | None = None) -> TopicMetadata:
        return self.metadata(broker, name).topics[name]

    def topics(self, broker: BrokerProcess | None = None) -> set[str]:
        return set(self.metadata(broker).topics)

    def leaders(self, name: str, broker: BrokerProcess | None = None) -> dict[int, int]:
        return {index: partition.leader for index, partition in self.topic(name, broker).partitions.items()}

    def create(self, name: str, partitions: int, replicas: int, **configs: str) -> None:
        config = {key.replace("_", "."): value for key, value in configs.items()}
        topic = NewTopic(name, partitions, replicas, config=config)
        for future in self.admin().create_topics([topic]).values():
            future.result(TIMEOUT_SECONDS)


@pytest.fixture
def look() -> Callable[[ClusterProcesses], View]:
    return View
