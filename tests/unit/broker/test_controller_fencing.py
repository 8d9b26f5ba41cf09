"""An old controller is neither obeyed nor able to write."""

from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from highwater.broker.cluster import Cluster, find_cluster
from highwater.broker.controller_store import ControllerStore, Deposed
from highwater.broker.partition_role import PartitionRole
from highwater.broker.roles import EVERY_TOPIC, NOT_REGISTERED, Roles
from highwater.broker.topics import Topics
from highwater.config.broker_config import BrokerConfig
from highwater.config.topic_settings import TopicSettings
from highwater.controller.partition import Leadership
from highwater.coordination import paths
from highwater.coordination.embedded import FILE_NAME, EmbeddedCoordination
from highwater.coordination.port import ensure
from highwater.coordination.records import PartitionStateRecord
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import NO_BROKER, BrokerId, LeaderEpoch, TopicId, TopicPartition
from highwater.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from highwater.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from highwater.protocol.messages.update_metadata import UpdateMetadataRequest

ME, OTHER = BrokerId(1), BrokerId(2)
REGISTRATION = 40
A0 = TopicPartition("a", 0)
TOPIC_ID = b"a" * 16


@dataclass
class RememberedReplicas:
    """Replicas that only remember what they were told."""

    told: list[tuple[str, BrokerId, int]] = field(default_factory=list)

    def become_leader(self, name: TopicPartition, role: PartitionRole, settings: TopicSettings) -> None:
        assert settings is not None
        self.told.append((f"lead {name}", role.leader, role.leader_epoch))

    def become_follower(
        self, name: TopicPartition, role: PartitionRole, settings: TopicSettings, *, fetches: bool
    ) -> None:
        assert settings is not None
        self.told.append((f"{'follow' if fetches else 'know the leader of'} {name}", role.leader, role.leader_epoch))

    def is_served(self, name: TopicPartition) -> bool:
        return any(word.endswith(f" {name}") for word, _, _ in self.told)

    def stop_replica(self, name: TopicPartition, *, delete: bool) -> None:
        self.told.append((f"stop {name}", NO_BROKER, int(delete)))

    def held(self) -> list[TopicPartition]:
        return []

    def drop_stray(self, name: TopicPartition, topic_id: TopicId) -> None:
        raise AssertionError(f"{name} of {topic_id!r} is no stray")


@dataclass
class Parts:
    store: EmbeddedCoordination
    config: BrokerConfig
    cluster: Cluster
    replicas: RememberedReplicas
    roles: Roles


@asynccontextmanager
async def parts(folder: Path) -> AsyncIterator[Parts]:
    with ThreadPoolExecutor(1) as threads:
        store = EmbeddedCoordination.open(folder / FILE_NAME, threads)
        config = BrokerConfig({})
        cluster = await find_cluster(store, ME, lambda length: bytes(range(1, length + 1)))
        replicas = RememberedReplicas()
        roles = Roles(ME, config, store=store, cluster=cluster, topics=Topics(), replicas=replicas)
        roles.registration = REGISTRATION
        try:
            yield Parts(store, config, cluster, replicas, roles)
        finally:
            await store.close()


def lead(epoch: int, *, controller_epoch: int, version: int = 0, leader: BrokerId = ME) -> LeaderAndIsrRequest:
    state = LeaderAndIsrPartitionState(
        partition_index=0, leader=leader, leader_epoch=epoch, isr=[leader], replicas=[1, 2], partition_epoch=version
    )
    topic = LeaderAndIsrTopicState(topic_name="a", topic_id=TOPIC_ID, partition_states=[state])
    return LeaderAndIsrRequest(
        controller_id=OTHER, controller_epoch=controller_epoch, broker_epoch=REGISTRATION, topic_states=[topic]
    )


async def test_a_controller_of_an_older_epoch_is_not_obeyed(tmp_path: Path) -> None:
    async with parts(tmp_path) as here:
        await here.roles.lead_and_follow(lead(3, controller_epoch=7))
        with pytest.raises(KafkaError) as refused:
            await here.roles.lead_and_follow(lead(4, controller_epoch=6))
        assert refused.value.code is ErrorCode.STALE_CONTROLLER_EPOCH
        with pytest.raises(KafkaError):
            await here.roles.learn(UpdateMetadataRequest(controller_epoch=6, type=EVERY_TOPIC))
        assert here.replicas.told == [("lead a-0", ME, 3)]
        assert here.cluster.controller_epoch == 7


async def test_words_meant_for_an_earlier_registration_are_refused(tmp_path: Path) -> None:
    async with parts(tmp_path) as here:
        request = lead(3, controller_epoch=7)
        request.broker_epoch = REGISTRATION - 1
        with pytest.raises(KafkaError) as refused:
            await here.roles.lead_and_follow(request)
        assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
        assert here.replicas.told == []


async def test_words_to_an_earlier_registration_are_refused_however_late_that_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The configs of a new topic are read first; a broker whose session ends meanwhile has registered anew."""
    async with parts(tmp_path) as here:

        async def register_anew(wanted: Sequence[str]) -> list[None]:
            here.roles.registration = REGISTRATION + 1
            return [None for _ in wanted]

        monkeypatch.setattr(here.store, "read_many", register_anew)
        with pytest.raises(KafkaError) as refused:
            await here.roles.lead_and_follow(lead(3, controller_epoch=7))
        assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
        assert here.replicas.told == []


async def test_a_replica_that_has_a_newer_role_is_not_deleted(tmp_path: Path) -> None:
    def stop(epoch: int) -> StopReplicaRequest:
        state = StopReplicaPartitionState(partition_index=0, leader_epoch=epoch, delete_partition=True)
        topic = StopReplicaTopicState(topic_name="a", partition_states=[state])
        return StopReplicaRequest(
            controller_id=OTHER, controller_epoch=7, broker_epoch=REGISTRATION, topic_states=[topic]
        )

    async with parts(tmp_path) as here:
        await here.roles.lead_and_follow(lead(3, controller_epoch=7))
        late = await here.roles.stop(stop(2))
        assert late.partition_errors[0].error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert here.replicas.told == [("lead a-0", ME, 3)]
        for epoch in (3, -1):  # -1: of a topic that the controller has forgotten
            await here.roles.lead_and_follow(lead(3, controller_epoch=7))
            answer = await here.roles.stop(stop(epoch))
            assert answer.partition_errors[0].error_code == ErrorCode.NONE
            assert here.replicas.told[-1] == ("stop a-0", NO_BROKER, 1)


async def test_a_broker_obeys_nobody_before_it_has_registered(tmp_path: Path) -> None:
    """Found by the nemesis: a process was told to lead on what the one before it had led, with less in its log."""
    async with parts(tmp_path) as here:
        here.roles.registration = NOT_REGISTERED
        with pytest.raises(KafkaError) as refused:
            await here.roles.lead_and_follow(lead(3, controller_epoch=7))
        assert refused.value.code is ErrorCode.BROKER_NOT_AVAILABLE, "it is told again, or its next registration is"
        with pytest.raises(KafkaError):
            await here.roles.learn(UpdateMetadataRequest(controller_epoch=7, type=EVERY_TOPIC))
        assert here.replicas.told == []


async def test_older_news_of_a_partition_are_refused_and_the_same_news_twice_do_nothing(tmp_path: Path) -> None:
    async with parts(tmp_path) as here:
        await here.roles.lead_and_follow(lead(3, controller_epoch=7))
        older = await here.roles.lead_and_follow(lead(2, controller_epoch=7))
        assert older.topics[0].partition_errors[0].error_code == ErrorCode.STALE_CONTROLLER_EPOCH
        same = await here.roles.lead_and_follow(lead(3, controller_epoch=7))
        assert same.topics[0].partition_errors[0].error_code == ErrorCode.NONE
        await here.roles.lead_and_follow(lead(4, controller_epoch=7, leader=OTHER))
        assert here.replicas.told == [("lead a-0", ME, 3), ("follow a-0", OTHER, 4)]


async def test_a_broker_whose_session_ended_leads_nothing_until_it_is_told_again(tmp_path: Path) -> None:
    async with parts(tmp_path) as here:
        await here.roles.lead_and_follow(lead(3, controller_epoch=7))
        here.roles.forget()
        await here.roles.lead_and_follow(lead(3, controller_epoch=7))
        assert here.replicas.told == [("lead a-0", ME, 3), ("follow a-0", NO_BROKER, 3), ("lead a-0", ME, 3)]


async def test_an_old_controller_cannot_write(tmp_path: Path) -> None:
    async with parts(tmp_path) as here:
        store = here.store
        before = PartitionStateRecord(ME, 0, (ME, OTHER), 1)
        await ensure(store, paths.partition("a", 0))
        await store.create(paths.partition_state("a", 0), before.encode())
        await store.create(paths.CONTROLLER_EPOCH, b"1")
        old = ControllerStore(store, here.config, epoch=1, epoch_version=0)
        moved = {A0: (Leadership(OTHER, LeaderEpoch(1), (OTHER,)), 0)}
        assert await store.write(paths.CONTROLLER_EPOCH, b"2", version=0) == 1
        with pytest.raises(Deposed):
            await anext(old.write_states(moved))
        new = ControllerStore(store, here.config, epoch=2, epoch_version=1)
        assert (await anext(new.write_states(moved))).written == {A0: (moved[A0][0], 1)}


async def test_a_write_that_comes_too_late_keeps_none_of_the_others_from_happening(tmp_path: Path) -> None:
    async with parts(tmp_path) as here:
        store = here.store
        await store.create(paths.CONTROLLER_EPOCH, b"1")
        for index in range(3):
            await ensure(store, paths.partition("a", index))
            state = PartitionStateRecord(ME, 0, (ME, OTHER), 1)
            await store.create(paths.partition_state("a", index), state.encode())
        shrunk = PartitionStateRecord(ME, 0, (ME,), 1)
        await store.write(paths.partition_state("a", 1), shrunk.encode())
        controller = ControllerStore(store, here.config, epoch=1, epoch_version=0)
        moved = Leadership(OTHER, LeaderEpoch(1), (OTHER,))
        changes = {TopicPartition("a", index): (moved, 0) for index in range(3)}
        (outcome,) = [piece async for piece in controller.write_states(changes)]
        assert set(outcome.written) == {A0, TopicPartition("a", 2)}
        assert outcome.refused == {TopicPartition("a", 1): (Leadership(ME, LeaderEpoch(0), (ME,)), 1)}


async def test_a_topic_of_one_partition_does_not_wait_for_one_of_a_thousand(tmp_path: Path) -> None:
    async with parts(tmp_path) as here:
        store = here.store
        await store.create(paths.CONTROLLER_EPOCH, b"1")
        names = [TopicPartition("large", index) for index in range(300)] + [TopicPartition("small", 0)]
        for name in names:
            await ensure(store, paths.partition(*name))
            await store.create(paths.partition_state(*name), PartitionStateRecord(ME, 0, (ME, OTHER), 1).encode())
        controller = ControllerStore(store, here.config, epoch=1, epoch_version=0)
        moved = Leadership(OTHER, LeaderEpoch(1), (OTHER,))
        pieces = [piece async for piece in controller.write_states(dict.fromkeys(names, (moved, 0)))]
        assert len(pieces) > 1
        assert TopicPartition("small", 0) in pieces[0].written
        assert sum(len(piece.written) for piece in pieces) == len(names)
