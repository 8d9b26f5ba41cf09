"""A simulated cluster that a test drives step by step."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from highwater.coordination import paths
from highwater.coordination.records import PartitionStateRecord
from highwater.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig
from highwater.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from highwater_history.history import ALL, Drain, History, Place, Send
from highwater_sim.administrator import Administrator
from highwater_sim.client import Client
from highwater_sim.cluster import Cluster
from highwater_sim.consumer import Consumer
from highwater_sim.machine import Machine
from highwater_sim.producer import Producer
from highwater_sim.replica_checks import ReplicaChecks
from highwater_sim.trace import Trace

PLACE = Place("t", 0)
SETTINGS = {"auto.leader.rebalance.enable": "false", "log.retention.check.interval.ms": "2000"}


class Scene:
    """Three brokers and one topic of one partition, with all checks of replicas on."""

    def __init__(self, **configs: str) -> None:
        self.cluster = Cluster(seed=3, settings=SETTINGS)
        self.history = History()
        self._checks = ReplicaChecks(self.cluster, compared_topics=frozenset({PLACE.topic}), trace=Trace())
        self._acks_all = Producer(self.cluster, "all", self.history, acks=ALL)
        self._acks_one = Producer(self.cluster, "one", self.history, acks=1)
        self.cluster.start()
        self.wait_for(lambda: all(machine.is_serving for machine in self.cluster.machines))
        topic = CreatableTopic(
            name=PLACE.topic,
            num_partitions=1,
            replication_factor=3,
            configs=[CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()],
        )
        assert self.do(Administrator(self.cluster, "admin", self.history).create([topic])) == {PLACE.topic}

    def do(self, work: Any) -> Any:
        """Run something on the clients' machine to its end."""
        return self.cluster.run_until_done(self.cluster.spawn(work), within_s=120)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = self.cluster.scheduler.now + 120
        while not condition():
            assert self.cluster.scheduler.now < deadline
            self.pass_time(0.05)

    def pass_time(self, seconds: float) -> None:
        self.cluster.scheduler.run_until(self.cluster.scheduler.now + seconds)

    @property
    def state(self) -> PartitionStateRecord:
        path = paths.partition_state(*PLACE)
        return PartitionStateRecord.decode(path, self.cluster.store.read(path).data)

    @property
    def leader(self) -> Machine:
        return self.cluster.machine(self.state.leader)

    @property
    def followers(self) -> list[Machine]:
        return [machine for machine in self.cluster.machines if machine is not self.leader]

    def all_in_sync(self) -> bool:
        return len(self.state.isr) == 3 and self.state.leader > 0

    def write(self, *, acks: int = ALL, values: Sequence[str] | None = None) -> Send:
        """Send one batch, of a few records if it is not said which; return what became of its first record."""
        before = len(self.history.steps)
        self.do((self._acks_all if acks == ALL else self._acks_one).send(PLACE, copies=values))
        send = self.history.steps[before]
        assert isinstance(send, Send)
        return send

    def write_for_sure(self) -> Send:
        """Send batches until one is acknowledged by all; return its first record."""
        for _ in range(100):
            send = self.write()
            if send.outcome == "ok":
                return send
        raise AssertionError("nothing was acknowledged")

    def delete_before(self, offset: int) -> None:
        """Delete older records."""
        partition = DeleteRecordsPartition(partition_index=PLACE.partition, offset=offset)
        topic = DeleteRecordsTopic(name=PLACE.topic, partitions=[partition])
        request = DeleteRecordsRequest(topics=[topic], timeout_ms=5000)
        client = Client(self.cluster, "deleting", self.history)
        answer = self.do(client.ask(self.leader.broker_id, request, DeleteRecordsResponse, version=2))
        assert answer.topics[0].partitions[0].error_code == 0

    def contents(self) -> set[str]:
        """All that the partition holds."""
        self.do(Consumer(self.cluster, "last", self.history).drain(PLACE))
        drain = self.history.steps[-1]
        assert isinstance(drain, Drain)
        return {value for _, value in drain.records}

    def isolate(self, machine: Machine) -> None:
        """Let a broker hear no other broker, nor be heard; the store and the clients it reaches."""
        for other in self.cluster.machines:
            if other is not machine:
                self.cluster.network.block(machine.name, other.name)
                self.cluster.network.block(other.name, machine.name)


@pytest.fixture
def scene() -> Iterator[Callable[..., Scene]]:
    scenes: list[Scene] = []

    def made(**configs: str) -> Scene:
        scenes.append(Scene(**configs))
        return scenes[-1]

    yield made
    for one in scenes:
        one.cluster.dispose()
        assert not one.cluster.bugs
