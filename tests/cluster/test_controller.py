"""The controller on real processes and a real ZooKeeper: elections, deaths, changes that reach everybody."""

import functools
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, ResourceType
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError

from highwater.model.errors import ErrorCode
from highwater.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from highwater.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from highwater.protocol.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from highwater.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from highwater.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
)
from highwater.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from highwater.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from highwater.testing.broker import BrokerProcess
from highwater.testing.cluster import ClusterProcesses
from highwater.testing.ports import free_port
from highwater.testing.waiting import wait_until
from highwater.testing.wire import WireClient

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


def test_elections_are_held_even_if_the_administrator_hangs_up(highwater_cluster: ClusterProcesses, look: Look) -> None:
    cluster, view = highwater_cluster, look(highwater_cluster)
    view.create("a", 12, 3)
    boss = cluster.brokers[view.controller()].bootstrap_servers
    turned = {index: list(reversed(state.replicas)) for index, state in view.topic("a").partitions.items()}
    moves = [ReassignablePartition(partition_index=index, replicas=replicas) for index, replicas in turned.items()]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="a", partitions=moves)])
    with WireClient(boss) as client:
        assert client.call(request, AlterPartitionReassignmentsResponse, 0).error_code == ErrorCode.NONE
    for index in turned:
        with WireClient(boss) as client:
            client.send(ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="a", partitions=[index])]), 2)
    preferred = {index: replicas[0] for index, replicas in turned.items()}
    wait_for_all(cluster, lambda broker: view.leaders("a", broker) == preferred, "the preferred replicas lead")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for index in turned:
        producer.produce("a", b"x", partition=index)
    assert producer.flush(TIMEOUT_SECONDS) == 0


def test_a_topic_that_is_deleted_while_a_broker_is_away_does_not_come_back_with_it(
    highwater_cluster: ClusterProcesses, look: Look
) -> None:
    cluster, view = highwater_cluster, look(highwater_cluster)
    view.create("a", 3, 3)
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for index in range(3):
        producer.produce("a", b"old", partition=index)
    assert producer.flush(TIMEOUT_SECONDS) == 0
    away = next(number for number in cluster.brokers if number != view.controller())
    cluster.brokers[away].kill()
    wait_for_all(cluster, lambda broker: view.live(broker) == {1, 2, 3} - {away}, "the dead broker is off the list")
    for future in view.admin().delete_topics(["a"]).values():
        future.result(TIMEOUT_SECONDS)
    cluster.brokers[away].start()
    wait_until(lambda: not list(cluster.brokers[away].data_dir.glob("a-*[0-9]")), "its replicas are gone too")
    wait_until(lambda: _is_made(view, "a"), "the topic can be made anew")
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g"})
    with closing(consumer):
        ends = [consumer.get_watermark_offsets(TopicPartition("a", index), TIMEOUT_SECONDS) for index in range(3)]
    assert ends == [(0, 0)] * 3


def _is_made(view: Any, topic: str) -> bool:
    try:
        view.create(topic, 3, 3)
    except KafkaException:
        return False
    return True


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


def test_brokers_close_what_they_write_to_zookeeper_and_who_is_not_let_in_does_not_start(
    highwater_cluster_factory: Callable[..., ClusterProcesses], look: Look, tmp_path: Path
) -> None:
    cluster = highwater_cluster_factory(
        1, zookeeper_digest_username="hw", zookeeper_digest_password="secret", zookeeper_set_acl="true"
    )
    view = look(cluster)
    view.create("a", 1, 1)
    stranger = KazooClient(cluster.zookeeper.address)
    stranger.start()
    try:
        assert b"partitions" in stranger.get("/highwater/brokers/topics/a")[0]
        forbidden: list[Callable[[], object]] = [
            functools.partial(stranger.set, "/highwater/brokers/topics/a", b"{}"),
            functools.partial(stranger.create, "/highwater/admin/delete_topics/a"),
            functools.partial(stranger.delete, "/highwater/controller"),
            functools.partial(stranger.get, "/highwater/config/brokers"),
        ]
        for do in forbidden:
            with pytest.raises(NoAuthError):
                do()
    finally:
        stranger.stop()
        stranger.close()
    settings = {**cluster.brokers[1].settings, "broker.id": 2, "log.dirs": tmp_path / "two"}
    refused = _serve({**settings, "zookeeper.digest.password": "guess"})
    assert refused.returncode == 1
    (line,) = refused.stderr.splitlines()
    assert "from us; see zookeeper.digest.username" in line


def test_a_broker_that_was_told_nothing_yet_lets_clients_wait(highwater_cluster: ClusterProcesses, look: Look) -> None:
    """It answered that there is no broker at all, and librdkafka (2.16) asked no more: `Local: Partial response`."""
    cluster, view = highwater_cluster, look(highwater_cluster)
    controller = view.controller()
    number, newcomer = next((each, cluster.brokers[each]) for each in cluster.brokers if each != controller)
    newcomer.stop()
    cluster.brokers[controller].pause()
    with ThreadPoolExecutor(1) as starter:
        started = starter.submit(newcomer.start)
        try:
            wait_until(lambda: _listens(newcomer), "it listens")
            with WireClient(newcomer.bootstrap_servers) as asking, WireClient(newcomer.bootstrap_servers) as another:
                topics = asking.send(MetadataRequest(topics=None), 9)
                described = asking.send(DescribeClusterRequest(), 0)
                another.call(ApiVersionsRequest(), ApiVersionsResponse, 0)
                wait_until(lambda: _is_stored(cluster, f"/highwater/brokers/ids/{number}"), "it has registered")
                cluster.brokers[controller].resume()
                answer = asking.receive(MetadataResponse, 9, topics)
                assert {broker.node_id for broker in answer.brokers} == {1, 2, 3}
                assert len(asking.receive(DescribeClusterResponse, 0, described).brokers) == 3
        finally:
            cluster.brokers[controller].resume()
            started.result()


def test_an_old_controller_is_not_obeyed(highwater_cluster: ClusterProcesses, look: Look) -> None:
    """The epoch of the first controller is spoken again, after another was elected, to brokers that are at work."""
    cluster, view = highwater_cluster, look(highwater_cluster)
    view.create("a", 1, 3)
    first = view.controller()
    old_epoch = int(_stored(cluster, "/highwater/controller_epoch"))
    cluster.brokers[first].kill()
    wait_for_all(cluster, lambda broker: view.controller(broker) not in {first, -1}, "another controller is known")
    wait_for_all(cluster, lambda broker: view.leaders("a", broker)[0] not in {first, -1}, "somebody leads")
    leader = view.leaders("a", cluster.running[0])[0]
    state = json.loads(_stored(cluster, "/highwater/brokers/topics/a/partitions/0/state"))
    told = LeaderAndIsrPartitionState(
        partition_index=0,
        leader=next(number for number in cluster.brokers if number not in {first, leader}),
        leader_epoch=state["leader_epoch"] + 5,
        isr=[1, 2, 3],
        replicas=[1, 2, 3],
    )
    topic_id = _topic_id(cluster.brokers[leader], "a")
    orders = LeaderAndIsrRequest(
        controller_id=first,
        controller_epoch=old_epoch,
        broker_epoch=2**60,
        topic_states=[LeaderAndIsrTopicState(topic_name="a", topic_id=topic_id, partition_states=[told])],
    )
    with WireClient(cluster.brokers[leader].bootstrap_servers) as client:
        assert client.call(orders, LeaderAndIsrResponse, 6).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        gone = UpdateMetadataRequest(controller_id=first, controller_epoch=old_epoch, broker_epoch=2**60, type=2)
        assert client.call(gone, UpdateMetadataResponse, 8).error_code == ErrorCode.STALE_CONTROLLER_EPOCH
    assert view.leaders("a", cluster.brokers[leader]) == {0: leader}
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    producer.produce("a", b"still led")
    assert producer.flush(TIMEOUT_SECONDS) == 0
    orders.controller_epoch += 1
    with WireClient(cluster.brokers[leader].bootstrap_servers) as client:
        assert client.call(orders, LeaderAndIsrResponse, 6).error_code == ErrorCode.NONE, "it was the epoch"


def _listens(broker: BrokerProcess) -> bool:
    with closing(socket.socket()) as probe:
        return probe.connect_ex((broker.host, broker.port)) == 0


def _is_stored(cluster: ClusterProcesses, path: str) -> bool:
    try:
        _stored(cluster, path)
    except NoNodeError:
        return False
    return True


def _stored(cluster: ClusterProcesses, path: str) -> bytes:
    client = KazooClient(cluster.zookeeper.address)
    client.start()
    try:
        return bytes(client.get(path)[0])
    finally:
        client.stop()
        client.close()


def _topic_id(broker: BrokerProcess, topic: str) -> bytes:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    with WireClient(broker.bootstrap_servers) as client:
        return client.call(asked, MetadataResponse, 12).topics[0].topic_id


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
