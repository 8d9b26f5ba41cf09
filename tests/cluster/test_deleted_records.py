"""Records that were deleted, on real processes: no replica has them when the administrator is told so."""

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import NewTopic, OffsetSpec

from highwater.testing.cluster import ClusterProcesses
from highwater.testing.nemesis import seen_by
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until

Look: TypeAlias = Callable[[ClusterProcesses], Any]
TOPIC = "trimmed"


@pytest.fixture
def cluster(highwater_cluster_factory: Callable[..., ClusterProcesses], look: Look) -> ClusterProcesses:
    """Three brokers, and a topic of one partition with ten records, which the first leads."""
    running = highwater_cluster_factory(3)
    view, wanted = look(running), NewTopic(TOPIC, num_partitions=1, replica_assignment=[[1, 2, 3]])
    view.admin().create_topics([wanted])[TOPIC].result(PATIENCE_SECONDS)
    producer = Producer({"bootstrap.servers": running.bootstrap_servers, "acks": "all"})
    for number in range(10):
        producer.produce(TOPIC, b"%d" % number)
    assert producer.flush(PATIENCE_SECONDS) == 0
    return running


def leads(cluster: ClusterProcesses, asked: int, expected: int) -> bool:
    return seen_by(cluster.brokers[asked], TOPIC).leaders == {0: expected}


def start(view: Any, asked: Any) -> int:
    place = TopicPartition(TOPIC, 0)
    found = view.admin(asked).list_offsets({place: OffsetSpec.earliest()})[place]
    return int(found.result(PATIENCE_SECONDS).offset)


def test_who_leads_next_has_not_got_what_was_deleted(cluster: ClusterProcesses, look: Look) -> None:
    view = look(cluster)
    (deleted,) = view.admin().delete_records([TopicPartition(TOPIC, 0, 6)]).values()
    assert deleted.result(PATIENCE_SECONDS).low_watermark == 6
    cluster.brokers[1].kill()
    wait_until(partial(leads, cluster, 2, 2), "the second broker leads")
    assert start(view, cluster.brokers[2]) == 6


def test_who_does_not_answer_is_waited_for_as_long_as_asked(cluster: ClusterProcesses, look: Look) -> None:
    view = look(cluster)
    cluster.brokers[3].pause()
    (deleted,) = view.admin().delete_records([TopicPartition(TOPIC, 0, 6)], operation_timeout=1).values()
    with pytest.raises(KafkaException) as refused:
        deleted.result(PATIENCE_SECONDS)
    assert refused.value.args[0].code() == KafkaError.REQUEST_TIMED_OUT
    cluster.brokers[3].resume()
    (deleted,) = view.admin().delete_records([TopicPartition(TOPIC, 0, 6)]).values()
    assert deleted.result(PATIENCE_SECONDS).low_watermark == 6


def test_the_command_says_that_a_replica_has_not_deleted_them_yet(cluster: ClusterProcesses) -> None:
    cluster.brokers[3].pause()
    command = [sys.executable, "-m", "highwater", "records", "delete", TOPIC, "--before", "6", "--yes"]
    told = subprocess.run(
        [*command, "--bootstrap", cluster.brokers[1].bootstrap_servers], capture_output=True, text=True, check=False
    )
    cluster.brokers[3].resume()
    assert told.returncode == 1
    assert "not every replica has done it yet" in told.stderr
    assert len(told.stderr.splitlines()) == 1
