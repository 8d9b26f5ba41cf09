"""Producers whose transactional id was taken over, on three brokers: kept out in every state of who came after them.

A transaction stays decided and incomplete for as long as the leader of one of its partitions is paused.
"""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import count
from typing import Any, NamedTuple, TypeAlias

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from py4j.protocol import Py4JJavaError

from highwater.model.coordinator_partition import partition_for
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from highwater.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from highwater.protocol.messages.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
from highwater.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from highwater.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from highwater.protocol.messages.produce import ProduceResponse
from highwater.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from highwater.protocol.records.record import build_batch, numbered
from highwater.testing.cluster import ClusterProcesses
from highwater.testing.java import JavaClients
from highwater.testing.requests import produce_request
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until
from highwater.testing.wire import WireClient

Look: TypeAlias = Callable[[ClusterProcesses], Any]
PARTITIONS = 3
STATE_PARTITIONS = 6
NONE, FENCED, OLD_EPOCH = ErrorCode.NONE, ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH


class Version(NamedTuple):
    """The versions of requests that clients of a `transaction.version` send."""

    produce: int
    commit_offsets: int
    end: int
    adds_by_writing: bool


CLASSIC = Version(produce=11, commit_offsets=4, end=4, adds_by_writing=False)
RAISES_EPOCH = Version(produce=12, commit_offsets=5, end=5, adds_by_writing=True)


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterProcesses]:
    """Every partition has one replica: a paused broker keeps nobody waiting but those who need it."""
    settings = {
        "zookeeper.session.timeout.ms": 30_000,
        "offsets.topic.num.partitions": 3,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.num.partitions": STATE_PARTITIONS,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
    }
    with ClusterProcesses(3, settings) as running:
        yield running


class Stage:
    """A topic with a partition on each broker, and who plays which part for one transactional id."""

    def __init__(self, cluster: ClusterProcesses, view: Any) -> None:
        self.cluster = cluster
        self.topic = f"ledger-{uuid.uuid4().hex[:8]}"
        view.create(self.topic, PARTITIONS, 1)
        self._make_internal_topics()
        leaders: dict[int, int] = {led: index for index, led in view.leaders(self.topic).items()}
        state: dict[int, int] = view.leaders("__transaction_state")
        offsets: dict[int, int] = view.leaders("__consumer_offsets")
        self.absent: int = next(broker for broker in leaders if broker != view.controller())
        """Who will be paused. Not the controller, for another broker is to be killed meanwhile."""
        names = (f"id-{uuid.uuid4().hex[:8]}" for _ in count())
        self.transactional_id, self.coordinator = next(
            (name, led) for name in names if (led := state[partition_for(name, STATE_PARTITIONS)]) != self.absent
        )
        groups = (f"group-{uuid.uuid4().hex[:8]}" for _ in count())
        self.group, self.group_coordinator = next(
            (name, led) for name in groups if (led := offsets[partition_for(name, 3)]) not in {self.absent, -1}
        )
        self.held = leaders.pop(self.absent)
        self.near = leaders.pop(self.coordinator)
        (self.far_leader, self.far), *_ = leaders.items()
        self._wires: dict[int, WireClient] = {}

    def _make_internal_topics(self) -> None:
        config = {"bootstrap.servers": self.cluster.bootstrap_servers, "log_level": 0}
        Producer(config | {"transactional.id": "first"}).init_transactions(PATIENCE_SECONDS)
        with closing(Consumer(config | {"group.id": "first"})) as consumer:
            consumer.committed([TopicPartition(self.topic, 0)], PATIENCE_SECONDS)

    def wire(self, broker: int) -> WireClient:
        if broker not in self._wires:
            self._wires[broker] = WireClient(self.cluster.brokers[broker].bootstrap_servers)
        return self._wires[broker]

    def close(self) -> None:
        for wire in self._wires.values():
            wire.close()
        self._wires.clear()

    def leader_of(self, partition: int) -> int:
        if partition == self.near:
            return self.coordinator
        return self.far_leader if partition == self.far else self.absent

    @property
    def state(self) -> str:
        request = DescribeTransactionsRequest(transactional_ids=[self.transactional_id])
        (found,) = self.wire(self.coordinator).call(request, DescribeTransactionsResponse, 0).transaction_states
        return found.transaction_state if not found.error_code else str(found.error_code)

    def coordinator_is_killed(self) -> None:
        """It comes back and has nothing but its log."""
        self.close()
        self.cluster.brokers[self.coordinator].kill()
        self.cluster.brokers[self.coordinator].start()

        def leads_again() -> bool:
            instance = Instance(self, CLASSIC, (1, 1))
            return instance.produce(self.near, "no") is not ErrorCode.NOT_LEADER_OR_FOLLOWER and self.state[0] == "P"

        wait_until(leads_again, "the coordinator has read its log")


class Instance:
    """A producer with the transactional id that says exactly what it is told to."""

    def __init__(self, stage: Stage, version: Version, producer: tuple[int, int] | None = None) -> None:
        self._stage = stage
        self._version = version
        self._sequences: dict[int, int] = {}
        self.producer = (-1, -1) if producer is None else producer
        if producer is None:
            wait_until(self._is_taken_on, "a producer id")

    def _is_taken_on(self) -> bool:
        answer = self.ask_for_id(4)
        self.producer = answer.producer_id, answer.producer_epoch
        return not answer.error_code

    def ask_for_id(self, version: int, *, recovers: bool = False) -> InitProducerIdResponse:
        """Ask as a new instance; or as the same one after an error."""
        request = InitProducerIdRequest(transactional_id=self._stage.transactional_id, transaction_timeout_ms=60_000)
        if recovers:
            request.producer_id, request.producer_epoch = self.producer
        return self._stage.wire(self._stage.coordinator).call(request, InitProducerIdResponse, version)

    def add(self, partition: int, version: int = 3) -> ErrorCode:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self._stage.transactional_id,
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self._stage.topic, partitions=[partition])],
        )
        answer = self._stage.wire(self._stage.coordinator).call(request, AddPartitionsToTxnResponse, version)
        return ErrorCode(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    def produce(self, partition: int, text: str, version: int | None = None) -> ErrorCode:
        batch = build_batch(
            numbered([(b"key", text.encode())], timestamp_ms=int(time.time() * 1000)),
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=self._sequences.get(partition, 0),
            is_transactional=True,
        )
        request = produce_request(self._stage.topic, batch, partition=partition, acks=-1)
        request.transactional_id = self._stage.transactional_id
        wire = self._stage.wire(self._stage.leader_of(partition))
        (topic,) = wire.call(request, ProduceResponse, version or self._version.produce).responses
        code = ErrorCode(topic.partition_responses[0].error_code)
        if not code:
            self._sequences[partition] = self._sequences.get(partition, 0) + 1
        return code

    def add_offsets(self, version: int = 3) -> ErrorCode:
        request = AddOffsetsToTxnRequest(
            transactional_id=self._stage.transactional_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            group_id=self._stage.group,
        )
        wire = self._stage.wire(self._stage.coordinator)
        return ErrorCode(wire.call(request, AddOffsetsToTxnResponse, version).error_code)

    def commit_offset(self, offset: int, version: int | None = None) -> ErrorCode:
        place = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
        request = TxnOffsetCommitRequest(
            transactional_id=self._stage.transactional_id,
            group_id=self._stage.group,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            topics=[TxnOffsetCommitRequestTopic(name=self._stage.topic, partitions=[place])],
        )
        wire = self._stage.wire(self._stage.group_coordinator)
        (topic,) = wire.call(request, TxnOffsetCommitResponse, version or self._version.commit_offsets).topics
        return ErrorCode(topic.partitions[0].error_code)

    def end(self, *, commits: bool, version: int | None = None) -> ErrorCode:
        request = EndTxnRequest(
            transactional_id=self._stage.transactional_id,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=commits,
        )
        wire = self._stage.wire(self._stage.coordinator)
        return ErrorCode(wire.call(request, EndTxnResponse, version or self._version.end).error_code)

    def write(self, text: str, offset: int) -> None:
        """Write to every broker and commit an offset, as part of a transaction that stays open."""
        for partition in range(PARTITIONS):
            if not self._version.adds_by_writing:
                assert self.add(partition) is NONE
            assert self.produce(partition, text) is NONE
        if not self._version.adds_by_writing:
            assert self.add_offsets() is NONE
        assert self.commit_offset(offset) is NONE

    def is_fenced(self) -> bool:
        """Whether everything that it tries is refused, in the words of every version."""
        refusals = {
            "add": (self.add(self._stage.near), FENCED),
            "add, before there was a word for it": (self.add(self._stage.near, 1), OLD_EPOCH),
            "add offsets": (self.add_offsets(), FENCED),
            "add offsets, before there was a word for it": (self.add_offsets(1), OLD_EPOCH),
            "recover": (self.ask_for_id(4, recovers=True).error_code, FENCED),
            "recover, before there was a word for it": (self.ask_for_id(3, recovers=True).error_code, OLD_EPOCH),
            "end, before there was a word for it": (self.end(commits=True, version=1), OLD_EPOCH),
        }
        for each in (CLASSIC, RAISES_EPOCH):
            refusals |= {
                f"write near, {each}": (self.produce(self._stage.near, "zombie", each.produce), OLD_EPOCH),
                f"write far, {each}": (self.produce(self._stage.far, "zombie", each.produce), OLD_EPOCH),
                f"commit offsets, {each}": (self.commit_offset(666, each.commit_offsets), OLD_EPOCH),
                f"commit, {each}": (self.end(commits=True, version=each.end), FENCED),
                f"abort, {each}": (self.end(commits=False, version=each.end), FENCED),
            }
        wrong = {what: ErrorCode(told).name for what, (told, expected) in refusals.items() if told != expected}
        assert not wrong, f"{wrong} in {self._stage.state}"
        return True


@pytest.fixture
def stage(cluster: ClusterProcesses, look: Look) -> Iterator[Stage]:
    with closing(Stage(cluster, look(cluster))) as made:
        yield made
        made.cluster.brokers[made.absent].resume()


class Committed:
    """What readers of committed records see."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._config = {
            "bootstrap.servers": stage.cluster.bootstrap_servers,
            "group.id": stage.group,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "log_level": 0,
        }

    def values(self, partition: int) -> list[str]:
        found = []
        with closing(Consumer(self._config)) as consumer:
            consumer.assign([TopicPartition(self._stage.topic, partition, 0)])
            while (record := consumer.poll(PATIENCE_SECONDS)) is not None:
                error = record.error()
                if error is None:
                    found.append((record.value() or b"").decode())
                elif error.code() == KafkaError._PARTITION_EOF:
                    return found
        raise AssertionError("neither a record nor the end")

    @property
    def offset(self) -> int:
        with closing(Consumer(self._config)) as consumer:
            (position,) = consumer.committed([TopicPartition(self._stage.topic, 0)], PATIENCE_SECONDS)
        return int(position.offset)

    def holds_nothing_back(self) -> bool:
        """Whether readers of committed records see as far as all others."""
        with ExitStack() as open_ones:
            committed, everything = (
                open_ones.enter_context(closing(Consumer(self._config | {"isolation.level": level})))
                for level in ("read_committed", "read_uncommitted")
            )
            places = [TopicPartition(self._stage.topic, index) for index in range(PARTITIONS)]
            return all(
                committed.get_watermark_offsets(place, PATIENCE_SECONDS)
                == everything.get_watermark_offsets(place, PATIENCE_SECONDS)
                for place in places
            )


def is_in(stage: Stage, state: str) -> None:
    wait_until(lambda: stage.state == state, state)


@pytest.mark.parametrize("version", [CLASSIC, RAISES_EPOCH], ids=["version 1", "version 2"])
@pytest.mark.parametrize("word", ["Commit", "Abort"])
def test_a_zombie_is_kept_out_in_every_state_of_who_took_its_place(stage: Stage, version: Version, word: str) -> None:
    zombie = Instance(stage, version)
    zombie.write("before", 1)
    assert zombie.end(commits=True) is NONE
    is_in(stage, "CompleteCommit")
    if version.adds_by_writing:
        zombie.producer = zombie.producer[0], zombie.producer[1] + 1
    current = Instance(stage, version)
    assert stage.state == "Empty"
    assert zombie.is_fenced()
    current.write("current", 2)
    assert stage.state == "Ongoing"
    assert zombie.is_fenced()
    stage.cluster.brokers[stage.absent].pause()
    assert current.end(commits=word == "Commit") is NONE
    assert stage.state == f"Prepare{word}"
    assert zombie.is_fenced()
    stage.coordinator_is_killed()
    assert stage.state == f"Prepare{word}", "the coordinator knows it from its log"
    assert zombie.is_fenced()
    stage.cluster.brokers[stage.absent].resume()
    is_in(stage, f"Complete{word}")
    assert zombie.is_fenced()
    committed = Committed(stage)
    for partition in range(PARTITIONS):
        assert committed.values(partition) == (["before", "current"] if word == "Commit" else ["before"])
    assert committed.offset == (2 if word == "Commit" else 1)
    assert committed.holds_nothing_back()


@pytest.mark.parametrize("version", [CLASSIC, RAISES_EPOCH], ids=["version 1", "version 2"])
def test_a_zombie_is_kept_out_while_what_it_left_open_is_aborted(stage: Stage, version: Version) -> None:
    zombie = Instance(stage, version)
    zombie.write("never", 1)
    stage.cluster.brokers[stage.absent].pause()
    newcomer = Instance(stage, version, (-1, -1))
    assert newcomer.ask_for_id(4).error_code == ErrorCode.CONCURRENT_TRANSACTIONS
    assert stage.state == "PrepareAbort"
    assert zombie.is_fenced()
    stage.coordinator_is_killed()
    assert stage.state == "PrepareAbort", "the coordinator knows it from its log"
    assert zombie.is_fenced()
    stage.cluster.brokers[stage.absent].resume()
    is_in(stage, "CompleteAbort")
    assert zombie.is_fenced()
    current = Instance(stage, version)
    current.write("current", 2)
    assert zombie.is_fenced()
    assert current.end(commits=True) is NONE
    is_in(stage, "CompleteCommit")
    committed = Committed(stage)
    assert [committed.values(partition) for partition in range(PARTITIONS)] == [["current"]] * PARTITIONS
    assert committed.offset == 2
    assert committed.holds_nothing_back()


@pytest.mark.parametrize("word", ["Commit", "Abort"])
def test_real_clients_whose_place_was_taken_are_told_so_while_the_outcome_is_on_its_way(
    stage: Stage, java_clients: JavaClients, word: str
) -> None:
    """librdkafka speaks version 1 of transactions, the Java client version 2."""
    settings = {
        "bootstrap.servers": stage.cluster.bootstrap_servers,
        "transactional.id": stage.transactional_id,
        "linger.ms": 0,
    }
    librdkafka = Producer({**settings, "log_level": 0})
    librdkafka.init_transactions(PATIENCE_SECONDS)
    librdkafka.begin_transaction()
    librdkafka.produce(stage.topic, b"librdkafka", partition=stage.near)
    librdkafka.commit_transaction(PATIENCE_SECONDS)
    record = java_clients.kafka.clients.producer.ProducerRecord
    with closing(java_clients.producer(**settings)) as java:
        java.initTransactions()
        java.beginTransaction()
        java.send(record(stage.topic, stage.near, None, "java"))
        java.commitTransaction()
        current = Instance(stage, RAISES_EPOCH)
        current.write("current", 2)
        stage.cluster.brokers[stage.absent].pause()
        assert current.end(commits=word == "Commit") is NONE
        librdkafka.begin_transaction()
        librdkafka.produce(stage.topic, b"zombie", partition=stage.near)
        with pytest.raises(KafkaException) as fenced:
            librdkafka.commit_transaction(PATIENCE_SECONDS)
        assert fenced.value.args[0].code() == KafkaError._FENCED
        java.beginTransaction()
        java.send(record(stage.topic, stage.near, None, "zombie"))
        with pytest.raises(Py4JJavaError, match=r"InvalidProducerEpochException|ProducerFencedException"):
            java.commitTransaction()
        with pytest.raises(Py4JJavaError, match="ProducerFencedException"):
            java.abortTransaction()
        assert stage.state == f"Prepare{word}"
        stage.cluster.brokers[stage.absent].resume()
    is_in(stage, f"Complete{word}")
    committed = Committed(stage)
    told = ["current"] if word == "Commit" else []
    assert committed.values(stage.near) == ["librdkafka", "java", *told]
    assert committed.values(stage.far) == committed.values(stage.held) == told
    assert committed.holds_nothing_back()
