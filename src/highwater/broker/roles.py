"""What the controller tells this broker: whom to lead and to follow, what to delete, what to answer clients.

One telling after another. A controller with an older epoch than one we have heard of is refused, and so is an older
word about a partition than the one we follow; the same word twice does no harm.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Protocol

from highwater.broker.cluster import LiveBroker
from highwater.broker.partition_role import PartitionRole
from highwater.broker.topics import PartitionState, Topic
from highwater.config.topic_settings import TopicSettings
from highwater.coordination import paths, records
from highwater.coordination.records import ListenerAddress
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import NO_BROKER, BrokerId, LeaderEpoch, TopicId, TopicPartition
from highwater.model.log_events import EventLog
from highwater.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from highwater.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
)
from highwater.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    UpdateMetadataTopicState,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from highwater.broker.cluster import Cluster
    from highwater.broker.topics import Topics
    from highwater.config.broker_config import BrokerConfig
    from highwater.coordination.port import Coordination

events = EventLog("broker")

NOT_REGISTERED: Final = -1

EVERY_TOPIC: Final = 2
"""The type of an UpdateMetadata that names all topics: what it does not name is gone."""
DELETED: Final = -2
"""The leader of a partition that is being deleted."""
_REPLICAS_AT_A_TIME: Final = 16


class Replicas(Protocol):
    """The partitions on this broker's disks."""

    def become_leader(self, name: TopicPartition, role: PartitionRole, settings: TopicSettings) -> None:
        """Lead a partition."""

    def become_follower(
        self, name: TopicPartition, role: PartitionRole, settings: TopicSettings, *, fetches: bool
    ) -> None:
        """Follow a partition's leader, and fetch from it or only know who it is."""

    def is_served(self, name: TopicPartition) -> bool:
        """Return whether a partition is led or followed; its disk may have failed since we were told to."""

    def stop_replica(self, name: TopicPartition, *, delete: bool) -> None:
        """Neither lead nor follow."""

    def held(self) -> list[TopicPartition]:
        """Return what lies on our disks, served or not."""

    def drop_stray(self, name: TopicPartition, topic_id: TopicId) -> None:
        """Delete what a partition of this topic left here."""


class Roles:
    """Takes the controller's word and puts it in force."""

    def __init__(
        self,
        broker_id: BrokerId,
        config: BrokerConfig,
        *,
        store: Coordination,
        cluster: Cluster,
        topics: Topics,
        replicas: Replicas,
    ) -> None:
        self._broker_id = broker_id
        self._config = config
        self._store = store
        self._cluster = cluster
        self._topics = topics
        self._replicas = replicas
        self._turn = asyncio.Lock()
        self._configs: dict[TopicId, dict[str, str]] = {}
        """Of topics whose partitions we were given before we were told about the topic; not by name, which may be that
        of a topic that we still know and that was deleted."""
        self._followed: dict[TopicPartition, PartitionRole] = {}
        self.told = asyncio.Event()
        """Set once a controller has told us about the cluster."""
        self.registration = NOT_REGISTERED
        """The number of our registration; the controller says which it speaks to."""
        self.is_leaving = False
        """Whether this broker is about to stop: it fetches nothing that it is not in sync with (see `_take`)."""

    def forget(self) -> None:
        """Lead nothing: our session has ended, others may lead by now. The next controller tells us everything again.

        Without this, a leader that was paused for long would go on taking writes with acks=1 that are cut off again
        when it follows.
        """
        self.told.clear()
        led = [(name, role) for name, role in self._followed.items() if role.leader == self._broker_id]
        self._followed.clear()
        for name, role in led:
            self._take(name, replace(role, leader=NO_BROKER), self._settings(name.topic, role.topic_id))
        self._followed.clear()

    # The three tellings ---------------------------------------------------------------------------------------------

    async def lead_and_follow(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Lead and follow what the controller wants."""
        async with self._turn:
            self._check(request.controller_epoch, request.broker_epoch)
            await self._know_configs(request.topic_states)
            self._check(request.controller_epoch, request.broker_epoch)  # We may have registered anew meanwhile.
            self._heard_of(request.controller_id, request.controller_epoch)
            response = LeaderAndIsrResponse()
            count = 0
            for topic in request.topic_states:
                answer = LeaderAndIsrTopicError(topic_id=topic.topic_id)
                settings = self._settings(topic.topic_name, TopicId(topic.topic_id))
                for state in topic.partition_states:
                    name = TopicPartition(topic.topic_name, state.partition_index)
                    code = self._take(name, _role(TopicId(topic.topic_id), state), settings)
                    answer.partition_errors.append(
                        LeaderAndIsrPartitionError(partition_index=state.partition_index, error_code=code)
                    )
                    count += 1
                    if count % _REPLICAS_AT_A_TIME == 0:
                        await asyncio.sleep(0)
                response.topics.append(answer)
            return response

    async def stop(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Give up replicas, and delete those that should go."""
        async with self._turn:
            self._check(request.controller_epoch, request.broker_epoch)
            response = StopReplicaResponse()
            for topic in request.topic_states:
                for state in topic.partition_states:
                    name = TopicPartition(topic.topic_name, state.partition_index)
                    code = self._give_up(name, state)
                    response.partition_errors.append(
                        StopReplicaPartitionError(
                            topic_name=topic.topic_name, partition_index=state.partition_index, error_code=code
                        )
                    )
            return response

    async def learn(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Know what clients may ask about the cluster."""
        async with self._turn:
            self._check(request.controller_epoch, request.broker_epoch)
            await self._know_configs([topic for topic in request.topic_states if not _is_deleted(topic)])
            self._check(request.controller_epoch, request.broker_epoch)
            self._heard_of(request.controller_id, request.controller_epoch)
            self._cluster.learn(map(_live, request.live_brokers), now_s=asyncio.get_running_loop().time())
            for topic in request.topic_states:
                if _is_deleted(topic):
                    self._configs.pop(TopicId(topic.topic_id), None)
                    self._forget_topic(topic.topic_name)
                else:
                    self._learn_topic(topic)
            if request.type == EVERY_TOPIC:
                named = {topic.topic_name for topic in request.topic_states}
                for known in list(self._topics):
                    if known.name not in named:
                        self._forget_topic(known.name)
                self._configs.clear()  # Topics that were not named are gone, whose partitions we were given.
                self._drop_strays()
            self.told.set()
            return UpdateMetadataResponse()

    # Who may tell ---------------------------------------------------------------------------------------------------

    def _check(self, controller_epoch: int, registration: int) -> None:
        newest = self._cluster.controller_epoch
        if controller_epoch < newest:
            raise KafkaError(
                f"a controller of epoch {controller_epoch} speaks, and epoch {newest} has begun",
                code=ErrorCode.STALE_CONTROLLER_EPOCH,
            )
        if self.registration == NOT_REGISTERED:
            # It speaks to the process that was here before us, and may have had more in its logs than we found.
            raise KafkaError("this broker has not registered yet", code=ErrorCode.BROKER_NOT_AVAILABLE)
        if registration < self.registration:
            raise KafkaError("the controller speaks to an earlier registration", code=ErrorCode.STALE_BROKER_EPOCH)

    def _heard_of(self, controller_id: int, controller_epoch: int) -> None:
        self._cluster.controller_id = BrokerId(controller_id)
        self._cluster.controller_epoch = controller_epoch

    # Roles ----------------------------------------------------------------------------------------------------------

    def _take(self, name: TopicPartition, role: PartitionRole, settings: TopicSettings) -> ErrorCode:
        now = self._followed.get(name)
        if now is not None and now.topic_id == role.topic_id:
            if (role.leader_epoch, role.state_version) < (now.leader_epoch, now.state_version):
                return ErrorCode.STALE_CONTROLLER_EPOCH
            if role == now and self._replicas.is_served(name):
                return ErrorCode.NONE
        try:
            if now is not None and now.topic_id != role.topic_id:
                self._replicas.stop_replica(name, delete=True)  # of a topic that was deleted and made anew
            if role.leader == self._broker_id:
                self._replicas.become_leader(name, role, settings)
            else:
                # Whoever leaves and fetches on is called in sync by the leader, then not by the controller, and so on.
                fetches = not self.is_leaving or self._broker_id in role.isr
                self._replicas.become_follower(name, role, settings, fetches=fetches)
        except KafkaError as error:
            events.error("role_not_taken", partition=name, leader=role.leader, reason=str(error))
            self._followed.pop(name, None)
            return error.code
        self._followed[name] = role
        return ErrorCode.NONE

    def _give_up(self, name: TopicPartition, state: StopReplicaPartitionState) -> ErrorCode:
        held = self._followed.get(name)
        if held is not None and 0 <= state.leader_epoch < held.leader_epoch:
            # It was under way when we were told to lead or to follow again.
            return ErrorCode.FENCED_LEADER_EPOCH
        self._followed.pop(name, None)
        try:
            self._replicas.stop_replica(name, delete=state.delete_partition)
        except KafkaError as error:
            events.error("replica_not_stopped", partition=name, reason=str(error))
            return error.code
        return ErrorCode.NONE

    def _drop_strays(self) -> None:
        """Delete replicas of partitions that have moved away from us while we were not there to be told.

        We may have gone on following them: only our session had ended, or the controller could not reach us.
        """
        for name in self._replicas.held():
            topic = self._topics.get(name.topic)
            if topic is None or name.partition >= len(topic.partitions) or name in self._followed:
                continue
            if self._broker_id not in topic.partitions[name.partition].replicas:
                try:
                    self._replicas.drop_stray(name, topic.id)
                except KafkaError as error:
                    events.error("stray_replica_not_deleted", partition=name, reason=str(error))

    # Topics ---------------------------------------------------------------------------------------------------------

    async def _know_configs(self, told: Iterable[LeaderAndIsrTopicState | UpdateMetadataTopicState]) -> None:
        """Read the configs of topics that we hear of for the first time."""
        new = {
            TopicId(topic.topic_id): paths.topic_config(topic.topic_name)
            for topic in told
            if not self._knows(topic.topic_name, TopicId(topic.topic_id)) and topic.topic_id not in self._configs
        }
        nodes = await self._store.read_many(list(new.values()))
        for (topic_id, path), node in zip(new.items(), nodes, strict=True):
            self._configs[topic_id] = {} if node is None else records.decode_configs(path, node.data)

    def _knows(self, name: str, topic_id: TopicId) -> bool:
        known = self._topics.get(name)
        return known is not None and known.id == topic_id

    def _settings(self, name: str, topic_id: TopicId) -> TopicSettings:
        topic = self._topics.get(name)
        if topic is not None and topic.id == topic_id:
            return topic.settings
        return TopicSettings.resolve(self._config, self._configs.get(topic_id, {}))

    def _learn_topic(self, told: UpdateMetadataTopicState) -> None:
        known = self._topics.get(told.topic_name)
        if known is not None and known.id != told.topic_id:
            self._topics.remove(known)
            known = None
        partitions = [] if known is None else known.partitions
        before = len(partitions)
        for state in sorted(told.partition_states, key=lambda state: state.partition_index):
            if state.partition_index < len(partitions):
                _update(partitions[state.partition_index], state)
            elif state.partition_index == len(partitions):
                partitions.append(_partition(state))
            else:
                events.error("metadata_with_gaps", topic=told.topic_name, partition=state.partition_index)
        if known is None:
            configs = self._configs.pop(TopicId(told.topic_id))
            settings = TopicSettings.resolve(self._config, configs)
            self._topics.put(Topic(told.topic_name, TopicId(told.topic_id), partitions, configs, settings))
        elif len(partitions) > before:
            self._topics.changed(told.topic_name)

    def _forget_topic(self, name: str) -> None:
        known = self._topics.get(name)
        if known is not None:
            self._topics.remove(known)


def _role(topic_id: TopicId, state: LeaderAndIsrPartitionState) -> PartitionRole:
    return PartitionRole(
        topic_id=topic_id,
        leader=BrokerId(state.leader),
        leader_epoch=LeaderEpoch(state.leader_epoch),
        isr=_brokers(state.isr),
        replicas=_brokers(state.replicas),
        state_version=state.partition_epoch,
        controller_epoch=state.controller_epoch,
        is_new=state.is_new,
    )


def _is_deleted(topic: UpdateMetadataTopicState) -> bool:
    return any(state.leader == DELETED for state in topic.partition_states)


def _partition(state: UpdateMetadataPartitionState) -> PartitionState:
    return PartitionState(
        replicas=_brokers(state.replicas),
        leader=BrokerId(state.leader),
        leader_epoch=LeaderEpoch(state.leader_epoch),
        isr=_brokers(state.isr),
        version=state.zk_version,
    )


def _update(partition: PartitionState, state: UpdateMetadataPartitionState) -> None:
    partition.replicas = _brokers(state.replicas)
    partition.leader = BrokerId(state.leader)
    partition.leader_epoch = LeaderEpoch(state.leader_epoch)
    partition.isr = _brokers(state.isr)
    partition.version = state.zk_version


def _live(broker: UpdateMetadataBroker) -> LiveBroker:
    listeners = {end.listener: ListenerAddress(end.host, end.port) for end in broker.endpoints}
    return LiveBroker(BrokerId(broker.id), broker.rack, listeners)


def _brokers(ids: list[int]) -> tuple[BrokerId, ...]:
    return tuple(BrokerId(broker) for broker in ids)
