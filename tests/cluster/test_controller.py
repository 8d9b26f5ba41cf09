"""The controller on real processes and a real ZooKeeper: elections, deaths, changes that reach everybody."""

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, ResourceType

from highwater.testing.broker import BrokerProcess
from highwater.testing.cluster import ClusterProcesses
from highwater.testing.ports import free_port
from highwater.testing.waiting import wait_until

TIMEOUT_SECONDS = 20
Look: TypeAlias = Callable[[ClusterProcesses], Any]


def test_every_broker_learns_of_topics_that_come_grow_and_go(highwater_cluster: ClusterProcesses, look: Look) -> None:
    cluster, view = highwater_cluster, look(highwater_cluster)
    assert view.live() == {1, 2, 3}
    view.create("a", 6, 2)
    for broker in cluster.brokers.values():
        assert sorted(view.leaders("a", broker).values()) == [1, 1, 2, 2, 3, 3]
    for future in view.admin().create_partitions([NewPartitions("a", 8)]).values():
        future.result(TIMEOUT_SECONDS)
    for broker in cluster.brokers.values():
        assert len(view.leaders("a", broker)) == 8
    for future in view.admin().delete_topics(["a"]).values():
        future.result(TIMEOUT_SECONDS)
    for broker in cluster.brokers.values():
        assert "a" not in view.topics(broker)
        assert not list(broker.data_dir.glob("a-*[0-9]"))
    view.create("a", 1, 3)
    assert set(view.leaders("a").values()) <= {1, 2, 3}


def test_a_killed_controller_is_replaced_and_what_it_led_is_led_by_others(
    highwater_cluster: ClusterProcesses, look: Look
) -> None:
    cluster, view = highwater_cluster, look(highwater_cluster)
    view.create("a", 6, 3)
    first = view.controller()
    cluster.brokers[first].kill()
    wait_for_all(cluster, lambda broker: view.live(broker) == {1, 2, 3} - {first}, "the dead broker is off the list")
    wait_for_all(cluster, lambda broker: view.controller(broker) != first, "another controller is known")
    wait_for_all(cluster, lambda broker: not {first, -1} & set(view.leaders("a", broker).values()), "others lead")
    view.create("b", 3, 2)
    cluster.brokers[first].start()
    wait_for_all(cluster, lambda broker: view.live(broker) == {1, 2, 3}, "it is back")
    assert view.topics(cluster.brokers[first]) >= {"a", "b"}


def test_a_broker_that_is_stopped_hands_over_first(highwater_cluster: ClusterProcesses, look: Look) -> None:
    cluster, view = highwater_cluster, look(highwater_cluster)
    view.create("a", 6, 3)
    leaving = next(number for number in cluster.brokers if number != view.controller())
    watcher = cluster.brokers[view.controller()]
    assert cluster.brokers[leaving].stop() == 0
    assert not {leaving, -1} & set(view.leaders("a", watcher).values())


def test_all_brokers_killed_at_once_come_back_with_all_their_topics(
    highwater_cluster: ClusterProcesses, look: Look
) -> None:
    cluster, view = highwater_cluster, look(highwater_cluster)
    view.create("a", 6, 3)
    for broker in cluster.brokers.values():
        broker.kill()
    for broker in cluster.brokers.values():
        broker.start()
    wait_for_all(cluster, lambda broker: view.live(broker) == {1, 2, 3}, "all are back")
    wait_for_all(cluster, lambda broker: -1 not in view.leaders("a", broker).values(), "every partition is led")


def test_a_changed_config_reaches_every_broker(highwater_cluster: ClusterProcesses, look: Look) -> None:
    cluster, view = highwater_cluster, look(highwater_cluster)
    view.create("a", 1, 1)
    entry = ConfigEntry("retention.ms", "12345", incremental_operation=AlterConfigOpType.SET)
    change = ConfigResource(ResourceType.TOPIC, "a", incremental_configs=[entry])
    for future in view.admin().incremental_alter_configs([change]).values():
        future.result(TIMEOUT_SECONDS)
    asked = ConfigResource(ResourceType.TOPIC, "a")

    def retention(broker: BrokerProcess) -> str:
        (future,) = view.admin(broker).describe_configs([asked]).values()
        return str(future.result(TIMEOUT_SECONDS)["retention.ms"].value)

    wait_for_all(cluster, lambda broker: retention(broker) == "12345", "the config is in force")


def test_a_second_broker_with_the_same_id_and_the_data_of_another_cluster_do_not_start(
    highwater_cluster_factory: Callable[..., ClusterProcesses], tmp_path: Path
) -> None:
    cluster = highwater_cluster_factory(1, zookeeper_session_timeout_ms=2000)
    twin = _serve({**cluster.brokers[1].settings, "log.dirs": cluster.brokers[1].data_dir.parent / "twin"})
    assert twin.returncode == 1
    assert f"broker 1 is registered at {cluster.brokers[1].bootstrap_servers}" in twin.stderr
    assert cluster.brokers[1].is_running

    strange = tmp_path / "strange"
    strange.mkdir()
    (strange / "meta.properties").write_text("version=0\nbroker.id=7\ncluster.id=elsewhere\n")
    failed = _serve({**cluster.brokers[1].settings, "broker.id": 7, "log.dirs": strange})
    assert failed.returncode == 1
    assert f"log dir {strange} belongs to broker 7 of cluster elsewhere" in failed.stderr
    assert len(failed.stderr.splitlines()) == 1


def test_without_zookeeper_there_is_a_clear_line(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    failed = _serve(
        {"zookeeper.connect": address, "zookeeper.connection.timeout.ms": 300, "log.dirs": tmp_path / "data"}
    )
    assert failed.returncode == 1
    assert f"no ZooKeeper answers at {address}" in failed.stderr
    assert len(failed.stderr.splitlines()) == 1


def wait_for_all(cluster: ClusterProcesses, condition: Callable[[BrokerProcess], bool], what: str) -> None:
    """Wait until `condition` holds as every running broker sees it."""
    for broker in cluster.running:
        wait_until(functools.partial(condition, broker), what)


def _serve(settings: dict[str, object]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "highwater", "serve", "--set", f"listeners=PLAINTEXT://127.0.0.1:{free_port()}"]
    for name, value in settings.items():
        command += ["--set", f"{name}={value}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
