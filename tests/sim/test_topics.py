"""Topics that come, go and come again under one name, on running brokers."""

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from tests.sim.conftest import Scene

from highwater.coordination import paths
from highwater.coordination.records import decode_controller
from highwater.model.errors import KafkaError
from highwater.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig
from highwater.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from highwater_sim.administrator import Administrator
from highwater_sim.agreement import disagreements

TIMEOUT_MS = 500


async def unanswered(asking: Coroutine[Any, Any, Any]) -> None:
    """Ask for something that is not answered before everybody has heard of it."""
    with suppress(KafkaError):
        await asking


def a_topic(segment_bytes: str, replicas: list[int]) -> CreatableTopic:
    return CreatableTopic(
        name="again",
        num_partitions=-1,
        replication_factor=-1,
        assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)],
        configs=[CreatableTopicConfig(name="segment.bytes", value=segment_bytes)],
    )


def test_a_broker_that_has_not_heard_of_a_deletion_hears_of_the_next_topic_of_that_name(
    scene: Callable[..., Scene], caplog: pytest.LogCaptureFixture
) -> None:
    """It went by the name: it had not read what is set for the new topic, took the old one's settings, and failed."""
    stage = scene()
    cluster, store = stage.cluster, stage.cluster.store
    boss = decode_controller(paths.CONTROLLER, store.read(paths.CONTROLLER).data)
    deaf = next(machine for machine in cluster.machines if machine.broker_id != boss)
    others = [machine.broker_id for machine in cluster.machines if machine is not deaf]
    admin = Administrator(cluster, "boss", stage.history)
    stage.do(admin.create([a_topic("1111", others)]))
    stage.wait_for(lambda: not disagreements(cluster))

    cluster.network.block(f"broker{boss}", deaf.name)
    deletion = DeleteTopicsRequest(topics=[DeleteTopicState(name="again")], timeout_ms=TIMEOUT_MS)
    cluster.spawn(unanswered(admin.ask(boss, deletion, DeleteTopicsResponse, version=6)))
    stage.wait_for(lambda: store.find(paths.topic("again")) is None)
    cluster.spawn(unanswered(admin.create([a_topic("2222", [deaf.broker_id, *others])])))
    stage.wait_for(lambda: store.find(paths.topic("again")) is not None)
    cluster.machine(boss).kill()  # with what it still had to say; the next controller tells what there is
    cluster.network.heal()
    cluster.machine(boss).start()
    stage.wait_for(lambda: not disagreements(cluster))

    assert deaf.node is not None
    held = deaf.node.partitions.get("again", 0)
    assert held is not None
    assert held.log.config.segment_bytes == 2222
    assert [record.getMessage() for record in caplog.records if record.exc_info] == cluster.bugs == []
