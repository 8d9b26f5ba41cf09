"""The shipped broker, three times, in virtual time."""

import asyncio
from collections.abc import Iterator

import pytest

from highwater.broker.peer import Peer
from highwater.coordination import paths
from highwater.coordination.records import ListenerAddress, TopicRecord, decode_controller
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from highwater.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from highwater.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from highwater_sim.cluster import Cluster
from highwater_sim.machine import PORT


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster(seed=7)
    cluster.start()
    cluster.scheduler.run_until(2.0)
    yield cluster
    cluster.dispose()
    assert not cluster.bugs


def controller(cluster: Cluster) -> int:
    return decode_controller(paths.CONTROLLER, cluster.store.read(paths.CONTROLLER).data)


async def create(broker: int, name: str) -> int:
    peer = Peer(ListenerAddress(f"broker{broker}", PORT), client_id="test", timeout_s=10)
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=3)
    answer = await peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=9000), CreateTopicsResponse, version=7)
    return answer.topics[0].error_code


def test_three_brokers_elect_a_controller_and_make_a_topic(cluster: Cluster) -> None:
    assert all(machine.is_serving for machine in cluster.machines)
    assert cluster.run_until_done(cluster.spawn(create(controller(cluster), "t")), within_s=10) == 0
    for machine in cluster.machines:
        assert machine.node is not None
        assert {str(partition.name) for partition in machine.node.partitions} == {"t-0", "t-1"}


def test_another_broker_becomes_the_controller_when_it_is_killed(cluster: Cluster) -> None:
    before = controller(cluster)
    cluster.machine(before).kill()
    cluster.scheduler.run_until(cluster.scheduler.now + 2.0)
    after = controller(cluster)
    assert after != before
    assert cluster.run_until_done(cluster.spawn(create(after, "t")), within_s=10) in {0, 38}


async def grow_and_move(broker: int, name: str) -> list[int]:
    """Give a topic a third partition and turn round the replicas of its first, both at once; return what was said."""
    growing, moving = (Peer(ListenerAddress(f"broker{broker}", PORT), client_id="test", timeout_s=10) for _ in range(2))
    wanted = CreatePartitionsTopic(name=name, count=3, assignments=None)
    partition = ReassignablePartition(partition_index=0, replicas=[3, 2, 1])
    move = ReassignableTopic(name=name, partitions=[partition])
    grown, moved = await asyncio.gather(
        growing.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=9000), CreatePartitionsResponse, version=3),
        moving.ask(
            AlterPartitionReassignmentsRequest(topics=[move], timeout_ms=9000),
            AlterPartitionReassignmentsResponse,
            version=0,
        ),
    )
    return [grown.results[0].error_code, moved.responses[0].partitions[0].error_code]


def test_a_topic_that_grows_while_it_is_moved_keeps_all_its_partitions(cluster: Cluster) -> None:
    """Neither of the two changes of its record is written over the other."""
    for number in range(20):
        name = f"t{number}"
        assert cluster.run_until_done(cluster.spawn(create(controller(cluster), name)), within_s=10) == 0
        grown, moved = cluster.run_until_done(cluster.spawn(grow_and_move(controller(cluster), name)), within_s=10)
        assert grown in {ErrorCode.NONE, ErrorCode.REASSIGNMENT_IN_PROGRESS}
        assert moved == ErrorCode.NONE
        cluster.scheduler.run_until(cluster.scheduler.now + 1.0)
        record = TopicRecord.decode(paths.topic(name), cluster.store.read(paths.topic(name)).data)
        assert record.replicas[0] == (3, 2, 1)
        assert list(record.replicas) == ([0, 1, 2] if grown == ErrorCode.NONE else [0, 1])


def test_what_was_written_is_still_there_after_all_have_lost_their_power(cluster: Cluster) -> None:
    cluster.run_until_done(cluster.spawn(create(controller(cluster), "t")), within_s=10)
    for machine in cluster.machines:
        machine.lose_power()
    cluster.scheduler.run_until(cluster.scheduler.now + 10.0)
    for machine in cluster.machines:
        machine.start()
    cluster.scheduler.run_until(cluster.scheduler.now + 10.0)
    assert all(machine.is_serving for machine in cluster.machines)
    for machine in cluster.machines:
        assert machine.node is not None
        assert {str(partition.name) for partition in machine.node.partitions} == {"t-0", "t-1"}
