"""Transactions over several brokers: all or nothing whoever dies, nothing aborted is read, nothing hangs for ever."""

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import Any, TypeAlias

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tests.cluster.ledger_writer import PARTITIONS, Writer, until_done

from highwater.broker.marker_sender import ATTEMPT_TIMEOUT_S
from highwater.model.coordinator_partition import partition_for
from highwater.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from highwater.testing.broker import BrokerProcess
from highwater.testing.cluster import ClusterProcesses
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until
from highwater.testing.wire import WireClient

STATE_PARTITIONS = 6
Look: TypeAlias = Callable[[ClusterProcesses], Any]


@pytest.fixture(scope="module")
def cluster() -> Iterator[ClusterProcesses]:
    settings = {
        "zookeeper.session.timeout.ms": 6_000,
        "replica.lag.time.max.ms": 1_500,
        "min.insync.replicas": 2,
        "offsets.topic.num.partitions": 3,
        "transaction.state.log.num.partitions": STATE_PARTITIONS,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.segment.bytes": 1_000_000,
    }
    with ClusterProcesses(3, settings) as running:
        yield running


@pytest.fixture
def view(cluster: ClusterProcesses, look: Look) -> Any:
    return look(cluster)


@pytest.fixture
def topic(view: Any) -> str:
    name = f"ledger-{uuid.uuid4().hex[:8]}"
    view.create(name, PARTITIONS, 3)
    return name


@pytest.fixture
def transactional(cluster: ClusterProcesses) -> Callable[[str], Producer]:
    """Make the producer of a transactional id, ready to begin."""

    def make(transactional_id: str) -> Producer:
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "transactional.id": transactional_id,
                "linger.ms": 0,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        until_done(producer.init_transactions)
        return producer

    return make


@pytest.fixture
def reader(cluster: ClusterProcesses) -> Iterator[Callable[..., Consumer]]:
    """Make consumers that read committed records only."""
    with ExitStack() as made:

        def make(*, group: str = "unused", isolation: str = "read_committed") -> Consumer:
            config = {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": group,
                "enable.auto.commit": False,
                "isolation.level": isolation,
                "enable.partition.eof": True,
                "log_level": 0,
            }
            return made.enter_context(closing(Consumer(config)))

        yield make


def values(consumer: Consumer, topic: str, partition: int) -> list[str]:
    """Everything up to the end of a partition."""
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[str] = []
    while True:
        record = consumer.poll(PATIENCE_SECONDS)
        assert record is not None, "neither a record nor the end"
        error = record.error()
        if error is None:
            value = record.value()
            assert value is not None
            found.append(value.decode())
        elif error.code() == KafkaError._PARTITION_EOF:
            return found


def is_stable(reader: Callable[..., Consumer], topic: str, partition: int = 0) -> bool:
    """Whether readers of committed records see as far as all others."""
    place = TopicPartition(topic, partition)
    return reader().get_watermark_offsets(place, PATIENCE_SECONDS) == reader(
        isolation="read_uncommitted"
    ).get_watermark_offsets(place, PATIENCE_SECONDS)


def coordinator(view: Any, transactional_id: str) -> int:
    return int(view.leaders("__transaction_state")[partition_for(transactional_id, STATE_PARTITIONS)])


def described(broker: BrokerProcess, transactional_id: str) -> TransactionState:
    request = DescribeTransactionsRequest(transactional_ids=[transactional_id])
    with WireClient(broker.bootstrap_servers) as client:
        (found,) = client.call(request, DescribeTransactionsResponse, 0).transaction_states
    return found


def state_of(cluster: ClusterProcesses, view: Any, transactional_id: str) -> str:
    """Where a transaction is, as its coordinator says; an error's number while nobody can say."""
    found = described(cluster.brokers[coordinator(view, transactional_id)], transactional_id)
    return found.transaction_state if not found.error_code else str(found.error_code)


def left_of(cluster: ClusterProcesses, view: Any, transactional_id: str) -> list[tuple[str, int]]:
    """The partitions that have not been told the outcome yet."""
    found = described(cluster.brokers[coordinator(view, transactional_id)], transactional_id)
    return [(topic.topic, index) for topic in found.topics for index in topic.partitions]


def all_in_sync(view: Any, *topics: str) -> bool:
    return all(
        len(partition.isrs) == len(partition.replicas)
        for topic in topics
        for partition in view.topic(topic).partitions.values()
    )


def killed(cluster: ClusterProcesses, view: Any, victim: int) -> None:
    """Kill a broker and wait until all that has several replicas is led by others."""
    cluster.brokers[victim].kill()
    wait_until(
        lambda: (
            victim not in view.leaders("__transaction_state").values()
            and -1 not in view.leaders("__transaction_state").values()
        ),
        "others coordinate",
    )


def test_all_or_nothing_while_coordinators_and_leaders_are_killed(
    cluster: ClusterProcesses,
    view: Any,
    topic: str,
    transactional: Callable[[str], Producer],
    reader: Callable[..., Consumer],
) -> None:
    groups = reader(group="ledger")
    writer = Writer(transactional, groups, topic)
    try:
        writer.go_on()
        for pick in (
            lambda: coordinator(view, "ledger"),
            lambda: view.leaders("__consumer_offsets")[partition_for("ledger", 3)],
        ):
            victim = pick()
            cluster.brokers[victim].kill()
            writer.go_on()
            cluster.brokers[victim].start()
            wait_until(lambda: all_in_sync(view, topic, "__transaction_state", "__consumer_offsets"), "all are in sync")
            writer.go_on()
    finally:
        writer.stop()
    transactional("ledger")  # What a fatal error has left open is aborted.
    found = [[int(text) for text in values(reader(), topic, partition)] for partition in range(PARTITIONS)]
    assert found[0] == found[1] == found[2]
    assert [number for number in found[0] if number not in writer.unknown] == writer.committed
    assert len(set(found[0])) == len(found[0])
    (position,) = groups.committed([TopicPartition(topic, 0)], PATIENCE_SECONDS)
    assert position.offset == found[0][-1] + 1
    wait_until(lambda: all(is_stable(reader, topic, index) for index in range(PARTITIONS)), "nothing is held back")


def test_a_coordinator_may_die_before_during_or_after_a_transaction_and_the_same_producer_goes_on(
    cluster: ClusterProcesses,
    view: Any,
    topic: str,
    transactional: Callable[[str], Producer],
    reader: Callable[..., Consumer],
) -> None:
    producer = transactional("survivor")

    def coordinator_dies_in(state: str) -> None:
        wait_until(lambda: state_of(cluster, view, "survivor") == state, state)
        victim = coordinator(view, "survivor")
        killed(cluster, view, victim)
        wait_until(lambda: state_of(cluster, view, "survivor") == state, "the next one knows")
        cluster.brokers[victim].start()
        wait_until(lambda: all_in_sync(view, topic, "__transaction_state"), "all are in sync")

    coordinator_dies_in("Empty")
    producer.begin_transaction()
    for partition in range(PARTITIONS):
        producer.produce(topic, b"first", partition=partition)
    assert producer.flush(PATIENCE_SECONDS) == 0
    coordinator_dies_in("Ongoing")
    until_done(producer.commit_transaction)
    coordinator_dies_in("CompleteCommit")
    producer.begin_transaction()
    producer.produce(topic, b"second", partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0
    until_done(producer.abort_transaction)
    coordinator_dies_in("CompleteAbort")
    producer.begin_transaction()
    producer.produce(topic, b"third", partition=0)
    until_done(producer.commit_transaction)
    for partition in range(PARTITIONS):
        assert values(reader(), topic, partition) == (["first", "third"] if partition == 0 else ["first"])
        wait_until(lambda: is_stable(reader, topic, partition), "nothing is held back")  # noqa: B023


@pytest.mark.parametrize("word", ["Commit", "Abort"])
def test_a_decided_transaction_is_completed_by_the_next_coordinator(
    word: str,
    cluster: ClusterProcesses,
    view: Any,
    topic: str,
    transactional: Callable[[str], Producer],
    reader: Callable[..., Consumer],
) -> None:
    """The leader of a partition is away when its marker comes, and the coordinator dies before it is back."""
    name = f"decided-{word}"
    producer = transactional(name)
    first = coordinator(view, name)
    lonely = f"lonely-{uuid.uuid4().hex[:8]}"
    view.create(lonely, 3, 1, min_insync_replicas="1")
    away, partition = next((led, index) for index, led in view.leaders(lonely).items() if led != first)
    producer.begin_transaction()
    producer.produce(lonely, b"here", partition=partition)
    producer.produce(topic, b"there", partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0
    killed(cluster, view, away)
    until_done(producer.commit_transaction if word == "Commit" else producer.abort_transaction)
    assert state_of(cluster, view, name) == f"Prepare{word}"
    wait_until(lambda: left_of(cluster, view, name) == [(lonely, partition)], "all others have their marker")
    assert is_stable(reader, topic)
    killed(cluster, view, first)
    assert coordinator(view, name) not in {first, away}
    wait_until(lambda: state_of(cluster, view, name) == f"Prepare{word}", "the next one knows what was decided")
    cluster.brokers[away].start()
    wait_until(lambda: state_of(cluster, view, name) == f"Complete{word}", "every partition has its marker")
    assert values(reader(), lonely, partition) == (["here"] if word == "Commit" else [])
    assert values(reader(), topic, 0) == (["there"] if word == "Commit" else [])
    assert is_stable(reader, lonely, partition)
    cluster.brokers[first].start()
    wait_until(lambda: all_in_sync(view, topic, "__transaction_state"), "all are in sync")


def test_a_topic_that_is_deleted_with_a_transaction_open_does_not_hold_it_up(
    cluster: ClusterProcesses,
    view: Any,
    topic: str,
    transactional: Callable[[str], Producer],
    reader: Callable[..., Consumer],
) -> None:
    """Its only leader is dead, so that nothing of it can be deleted yet: the decision to do so is enough."""
    name = "forgotten"
    producer = transactional(name)
    lonely = f"lonely-{uuid.uuid4().hex[:8]}"
    view.create(lonely, 3, 1, min_insync_replicas="1")
    away, partition = next(
        (led, index) for index, led in view.leaders(lonely).items() if led != coordinator(view, name)
    )
    producer.begin_transaction()
    producer.produce(lonely, b"gone", partition=partition)
    producer.produce(topic, b"kept", partition=0)
    assert producer.flush(PATIENCE_SECONDS) == 0
    killed(cluster, view, away)
    until_done(producer.commit_transaction)
    wait_until(lambda: left_of(cluster, view, name) == [(lonely, partition)], "the dead broker is waited for")
    for deleted in view.admin().delete_topics([lonely]).values():
        deleted.result(PATIENCE_SECONDS)
    wait_until(lambda: state_of(cluster, view, name) == "CompleteCommit", "nobody is waited for")
    assert values(reader(), topic, 0) == ["kept"]
    cluster.brokers[away].start()
    wait_until(lambda: all_in_sync(view, topic, "__transaction_state"), "all are in sync")


def test_a_leader_is_killed_while_a_marker_is_on_its_way_to_it(
    cluster: ClusterProcesses,
    view: Any,
    topic: str,
    transactional: Callable[[str], Producer],
    reader: Callable[..., Consumer],
) -> None:
    """It has the request and does not answer any more: paused, then killed."""
    name = "on-the-way"
    producer = transactional(name)
    first = coordinator(view, name)
    victim, partition = next((led, index) for index, led in view.leaders(topic).items() if led != first)
    producer.begin_transaction()
    producer.produce(topic, b"arrives", partition=partition)
    assert producer.flush(PATIENCE_SECONDS) == 0
    cluster.brokers[victim].pause()
    try:
        with ThreadPoolExecutor(1) as threads:
            committing = threads.submit(until_done, producer.commit_transaction)
            asked = cluster.brokers[first]
            wait_until(
                lambda: described(asked, name).transaction_state == "PrepareCommit", "it is decided without the victim"
            )
            cluster.brokers[victim].kill()
            committing.result(PATIENCE_SECONDS)
    finally:
        cluster.brokers[victim].kill()
    wait_until(lambda: state_of(cluster, view, name) == "CompleteCommit", "the next leader has the marker")
    assert values(reader(), topic, partition) == ["arrives"]
    assert is_stable(reader, topic, partition)
    cluster.brokers[victim].start()
    wait_until(lambda: all_in_sync(view, topic, "__transaction_state"), "all are in sync")


def test_readers_of_what_is_committed_do_not_wait_for_a_leader_that_has_gone_silent(
    cluster: ClusterProcesses,
    view: Any,
    topic: str,
    transactional: Callable[[str], Producer],
    reader: Callable[..., Consumer],
) -> None:
    """As a machine that has lost its power: it has the marker, does not answer, and does not hang up either."""
    name = "silent"
    producer = transactional(name)
    first = coordinator(view, name)
    silent, partition = next((led, index) for index, led in view.leaders(topic).items() if led != first)
    producer.begin_transaction()
    producer.produce(topic, b"kept", partition=partition)
    producer.flush()
    cluster.brokers[silent].pause()
    try:
        until_done(producer.commit_transaction)
        asked = cluster.brokers[first]
        wait_until(lambda: view.leaders(topic, asked)[partition] != silent, "another leads")
        # Without news that the broker is gone, a marker is given up and sent anew after ATTEMPT_TIMEOUT_S.
        soon_s = ATTEMPT_TIMEOUT_S / 2
        wait_until(lambda: described(asked, name).topics == [], "it was told the outcome", timeout_seconds=soon_s)
        assert values(reader(), topic, partition) == ["kept"]
    finally:
        cluster.brokers[silent].resume()
    wait_until(lambda: all_in_sync(view, topic), "all are back")


def test_two_with_one_id_at_once_take_turns_and_nothing_is_half_done(
    cluster: ClusterProcesses,
    view: Any,
    topic: str,
    transactional: Callable[[str], Producer],
    reader: Callable[..., Consumer],
) -> None:
    """Each that comes fences the other in the midst of its work, while coordinators come and go."""
    writer = Writer(transactional, reader(group="twins"), topic, "twins")
    intruded: list[int] = []
    try:
        for number in range(10_000, 10_006):
            writer.go_on(2)
            intruder = transactional("twins")
            if number == 10_003:
                victim = coordinator(view, "twins")
                killed(cluster, view, victim)
                cluster.brokers[victim].start()
            try:
                intruder.begin_transaction()
                for partition in range(PARTITIONS):
                    intruder.produce(topic, str(number).encode(), partition=partition)
                until_done(intruder.commit_transaction)
                intruded.append(number)
            except KafkaException as failure:
                if not failure.args[0].fatal():
                    raise
                writer.unknown.add(number)  # The other one was faster.
    finally:
        writer.stop()
    transactional("twins")  # What a fatal error has left open is aborted.
    found = [[int(text) for text in values(reader(), topic, partition)] for partition in range(PARTITIONS)]
    assert found[0] == found[1] == found[2]
    assert len(set(found[0])) == len(found[0])
    known = [number for number in found[0] if number not in writer.unknown]
    assert sorted(known) == sorted(writer.committed + intruded)
    wait_until(lambda: all(is_stable(reader, topic, index) for index in range(PARTITIONS)), "nothing is held back")
    wait_until(lambda: all_in_sync(view, topic, "__transaction_state"), "all are in sync")


def test_the_java_client_adds_partitions_by_writing_to_them_wherever_the_coordinator_is(
    java: Callable[..., str], cluster: ClusterProcesses, topic: str, reader: Callable[..., Consumer]
) -> None:
    """`transaction.version` 2: a leader asks the coordinator on another broker, and batches stay in order meanwhile."""
    report = java(
        "org.apache.kafka.tools.ProducerPerformance",
        *("--topic", topic, "--num-records", "10000", "--record-size", "1000", "--throughput", "-1"),
        *("--transactional-id", "everywhere", "--transaction-duration-ms", "30"),
        *("--producer-props", f"bootstrap.servers={cluster.bootstrap_servers}"),
    )
    assert report.startswith("10000 records sent"), report
    assert sum(len(values(reader(), topic, partition)) for partition in range(PARTITIONS)) == 10_000


def test_the_transaction_topic_is_made_as_the_settings_say(view: Any, transactional: Callable[[str], Producer]) -> None:
    from confluent_kafka.admin import ConfigResource

    transactional("anybody")
    described = view.topic("__transaction_state").partitions
    assert len(described) == STATE_PARTITIONS
    assert {len(partition.replicas) for partition in described.values()} == {3}
    resource = ConfigResource(ConfigResource.Type.TOPIC, "__transaction_state")
    (configs,) = (future.result(PATIENCE_SECONDS) for future in view.admin().describe_configs([resource]).values())
    expected = {"cleanup.policy": "compact", "min.insync.replicas": "1", "segment.bytes": "1000000"}
    assert {name: configs[name].value for name in expected} == expected
