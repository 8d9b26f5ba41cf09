"""The controller's words: what it knows, as the requests that brokers take."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from highwater.broker.roles import DELETED, EVERY_TOPIC
from highwater.config.listeners import SECURITY_PROTOCOLS
from highwater.model.ids import BrokerId, TopicPartition
from highwater.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from highwater.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from highwater.protocol.messages.update_metadata import (
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from highwater.controller.controller import Controller
    from highwater.controller.partition import ControlledPartition
    from highwater.coordination.records import BrokerRecord, ListenerAddress

SOME_TOPICS: Final = 1
_PROTOCOL_IDS: Final = {name: number for number, name in enumerate(SECURITY_PROTOCOLS)}


class ControllerNews:
    """Writes requests from what the controller knows when they are sent, so that only the newest is ever told."""

    def __init__(
        self,
        broker_id: BrokerId,
        epoch: int,
        core: Controller,
        addresses: Mapping[BrokerId, BrokerRecord],
        *,
        listener: str,
    ) -> None:
        self._broker_id = broker_id
        self._epoch = epoch
        self._core = core
        self._addresses = addresses
        self._listener = listener

    def address_of(self, broker: BrokerId) -> ListenerAddress:
        """Return where other brokers reach this one."""
        return self._addresses[broker].address(self._listener)

    def roles(self, broker: BrokerId, registration: int, names: Iterable[TopicPartition]) -> LeaderAndIsrRequest:
        """Return whom `broker` shall lead and follow in these partitions, as far as it holds them."""
        topics: dict[str, list[LeaderAndIsrPartitionState]] = defaultdict(list)
        leaders: set[BrokerId] = set()
        for name in sorted(names):
            partition = self._core.find(name)
            if partition is not None and broker in partition.holders:
                topics[name.topic].append(self._role(broker, name.partition, partition))
                leaders.add(partition.leadership.leader)
        return LeaderAndIsrRequest(
            controller_id=self._broker_id,
            controller_epoch=self._epoch,
            broker_epoch=registration,
            type=SOME_TOPICS,
            topic_states=[
                LeaderAndIsrTopicState(topic_name=name, topic_id=self._core.topics[name].id, partition_states=states)
                for name, states in topics.items()
            ],
            live_leaders=[
                LeaderAndIsrLiveLeader(broker_id=leader, host_name=at.host, port=at.port)
                for leader in sorted(leaders & self._addresses.keys())
                for at in [self.address_of(leader)]
            ],
        )

    def metadata(self, registration: int, names: Iterable[TopicPartition] | None) -> UpdateMetadataRequest:
        """Return what clients may ask about these partitions, or about all; and who is alive."""
        by_topic: dict[str, Collection[int]] = {}
        if names is None:
            by_topic = {
                name: topic.partitions
                for name, topic in self._core.topics.items()
                if not self._core.is_being_deleted(name)
            }
        else:
            chosen: dict[str, list[int]] = defaultdict(list)
            for name in names:
                chosen[name.topic].append(name.partition)
            by_topic = {name: sorted(chosen[name]) for name in sorted(chosen) if name in self._core.topics}
        return UpdateMetadataRequest(
            controller_id=self._broker_id,
            controller_epoch=self._epoch,
            broker_epoch=registration,
            type=EVERY_TOPIC if names is None else SOME_TOPICS,
            topic_states=[
                UpdateMetadataTopicState(
                    topic_name=name,
                    topic_id=self._core.topics[name].id,
                    partition_states=[self._partition(name, index) for index in indexes],
                )
                for name, indexes in by_topic.items()
            ],
            live_brokers=[_broker(broker, self._addresses[broker]) for broker in sorted(self._addresses)],
        )

    def stops(self, registration: int, names: Iterable[TopicPartition]) -> StopReplicaRequest:
        """Return which replicas shall be deleted."""
        topics: dict[str, list[StopReplicaPartitionState]] = defaultdict(list)
        for name in sorted(names):
            partition = self._core.find(name)
            epoch = -1 if partition is None else partition.leadership.epoch
            topics[name.topic].append(
                StopReplicaPartitionState(partition_index=name.partition, leader_epoch=epoch, delete_partition=True)
            )
        return StopReplicaRequest(
            controller_id=self._broker_id,
            controller_epoch=self._epoch,
            broker_epoch=registration,
            topic_states=[
                StopReplicaTopicState(topic_name=name, partition_states=states) for name, states in topics.items()
            ],
        )

    def _role(self, broker: BrokerId, index: int, partition: ControlledPartition) -> LeaderAndIsrPartitionState:
        assignment, leadership = partition.assignment, partition.leadership
        return LeaderAndIsrPartitionState(
            partition_index=index,
            controller_epoch=self._epoch,
            leader=leadership.leader,
            leader_epoch=leadership.epoch,
            isr=list(leadership.isr),
            partition_epoch=partition.version,
            replicas=list(partition.holders),
            adding_replicas=[] if partition.has_moved else list(assignment.adding),
            removing_replicas=[] if partition.has_moved else list(assignment.removing),
            is_new=broker in assignment.adding or partition.version == 0,
        )

    def _partition(self, topic: str, index: int) -> UpdateMetadataPartitionState:
        partition = self._core.topics[topic].partitions[index]
        leadership = partition.leadership
        replicas = partition.assignment.replicas
        return UpdateMetadataPartitionState(
            partition_index=index,
            controller_epoch=self._epoch,
            leader=DELETED if self._core.is_being_deleted(topic) else leadership.leader,
            leader_epoch=leadership.epoch,
            isr=list(leadership.isr),
            zk_version=partition.version,
            replicas=list(replicas),
            offline_replicas=[b for b in replicas if b not in self._core.brokers or b in partition.broken],
        )


def _broker(broker: BrokerId, record: BrokerRecord) -> UpdateMetadataBroker:
    return UpdateMetadataBroker(
        id=broker,
        endpoints=[
            UpdateMetadataEndpoint(
                port=at.port,
                host=at.host,
                listener=name,
                security_protocol=_PROTOCOL_IDS[record.security_protocols.get(name, "PLAINTEXT")],
            )
            for name, at in record.listeners.items()
        ],
        rack=record.rack,
    )
