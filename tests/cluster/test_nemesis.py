"""A cluster is broken in many ways while real clients write and read: every rule about histories holds."""

import random
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from highwater.testing import skewed_clock
from highwater.testing.cluster import ClusterProcesses
from highwater.testing.nemesis import FAULTS, SETTINGS, Nemesis
from highwater.testing.network import Network
from highwater.testing.waiting import PATIENCE_SECONDS, wait_until
from highwater.testing.workload import Workload

TOPIC = "ledger"
PARTITIONS = 3
SHORT_RUN = (
    "cut_a_leader_from_its_followers",
    "pause_a_leader",
    "cut_a_broker_from_zookeeper",
    "wipe_a_disk",
    "cut_one_way",
    "tear_the_last_writes",
    "cut_a_broker_off",
    "damage_the_last_writes",
    "lose_what_can_be_rebuilt",
    "fill_a_disk",
    "set_a_clock_wrong",
)
"""What other tests do not do; `make nemesis` does everything, in any order, for ten minutes."""


@pytest.fixture(scope="module")
def network() -> Iterator[Network]:
    with Network() as running:
        yield running


@pytest.fixture(scope="module")
def cluster(network: Network) -> Iterator[ClusterProcesses]:
    with ClusterProcesses(3, SETTINGS, module=skewed_clock.MODULE, network=network) as running:
        yield running


def test_nothing_is_lost_whatever_breaks(cluster: ClusterProcesses, network: Network) -> None:
    assert set(SHORT_RUN) <= set(FAULTS)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3)])[TOPIC].result(PATIENCE_SECONDS)
    with Workload(cluster.bootstrap_servers, TOPIC, PARTITIONS) as workload:
        nemesis = Nemesis(cluster, network, TOPIC, dice=random.Random(1), while_broken=workload.go_on)
        for fault in SHORT_RUN:
            workload.go_on()
            getattr(nemesis, fault)()
        workload.go_on()
        violations = workload.finish()
    assert workload.failures == []
    assert violations == []
    wait_until(nemesis.logs_are_equal, "all replicas hold the same bytes")


def test_a_controller_that_nobody_hears_makes_way_for_one_that_is_heard(
    cluster: ClusterProcesses, network: Network
) -> None:
    """It keeps its session, so that nobody else would be elected, and what it decides would never come true."""
    nemesis = Nemesis(cluster, network, "meanwhile", dice=random.Random(1), while_broken=lambda: None)
    wait_until(lambda: nemesis.look().controller != -1, "there is a controller")
    unheard = nemesis.look().controller
    for number in cluster.brokers.keys() - {unheard}:
        network.cut(unheard, number, both_ways=False)
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    admin.create_topics([NewTopic("meanwhile", 3, 3)], request_timeout=PATIENCE_SECONDS)
    wait_until(
        lambda: nemesis.look().controller not in {unheard, -1} and len(nemesis.look().leaders) == 3,
        "most brokers are told by another controller what this one decided",
    )
    network.heal()
    wait_until(nemesis.is_whole, "all replicas are in sync")
