"""The shipped broker, three times, in virtual time."""

from collections.abc import Iterator

import pytest

from highwater.broker.peer import Peer
from highwater.coordination import paths
from highwater.coordination.records import ListenerAddress, decode_controller
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
