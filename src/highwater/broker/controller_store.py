"""What the controller reads from the cluster's memory and writes to it: many at a time, and only while it is elected.

Every write carries a check of the controller epoch's version, so that a controller that was replaced without noticing
cannot write any more.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from highwater.config.settings import replication
from highwater.config.topic_settings import TopicSettings
from highwater.controller.events import StatesWritten, TookOver
from highwater.controller.partition import Assignment, ControlledPartition, ControlledTopic, Leadership
from highwater.coordination import paths, records
from highwater.coordination.port import BadVersion, Check, Create, Delete, NoNode, Write
from highwater.coordination.records import BrokerRecord, PartitionStateRecord, TopicRecord
from highwater.model.errors import KafkaError
from highwater.model.ids import BrokerId, LeaderEpoch, TopicPartition

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence

    from highwater.config.broker_config import BrokerConfig
    from highwater.coordination.port import Coordination, Node, Operation

_WRITES_AT_ONCE: Final = 200
"""Writes in one transaction. When one of them comes too late, the others of its transaction are tried one by one."""
_OPERATIONS_AT_ONCE: Final = 1000


class Deposed(KafkaError):
    """Another controller was elected: nothing more can be written."""


class ControllerStore:
    """The cluster's memory in the hands of the controller that was elected with `epoch`."""

    def __init__(self, store: Coordination, config: BrokerConfig, *, epoch: int, epoch_version: int) -> None:
        self._store = store
        self._config = config
        self.epoch = epoch
        self._fence = Check(paths.CONTROLLER_EPOCH, epoch_version)

    @property
    def fence(self) -> Operation:
        """What makes a transaction fail once another controller was elected."""
        return self._fence

    # Reading --------------------------------------------------------------------------------------------------------

    async def load(self) -> tuple[TookOver, dict[BrokerId, BrokerRecord]]:
        """Return all that there is, and where the live brokers are reached."""
        registrations, addresses = await self.brokers()
        names = await self._store.children(paths.TOPICS)
        nodes = await self._store.read_many([paths.topic(name) for name in names])
        configs = await self._store.read_many([paths.topic_config(name) for name in names])
        decoded = {
            name: TopicRecord.decode(paths.topic(name), node.data)
            for name, node in zip(names, nodes, strict=True)
            if node is not None
        }
        states = await self._states_of(decoded)
        topics = {
            name: self._topic(name, decoded[name], config, states, registrations)
            for name, config in zip(names, configs, strict=True)
            if name in decoded
        }
        deleting = frozenset(await self._store.children(paths.DELETED_TOPICS))
        return TookOver(registrations, topics, deleting), addresses

    async def brokers(self) -> tuple[dict[BrokerId, int], dict[BrokerId, BrokerRecord]]:
        """Return who is alive, with the number of each registration, and where they are reached."""
        ids = [BrokerId(int(name)) for name in await self._store.children(paths.BROKERS)]
        nodes = await self._store.read_many([paths.broker(broker) for broker in ids])
        there = [(broker, node) for broker, node in zip(ids, nodes, strict=True) if node is not None]
        return (
            {broker: node.created for broker, node in there},
            {broker: BrokerRecord.decode(paths.broker(broker), node.data) for broker, node in there},
        )

    async def states(self, names: Iterable[TopicPartition]) -> dict[TopicPartition, tuple[Leadership, int]]:
        """Return the states of those partitions that have one."""
        return {
            name: (_leadership(name, node), node.version) for name, node in (await self._state_nodes(names)).items()
        }

    async def _state_nodes(self, names: Iterable[TopicPartition]) -> dict[TopicPartition, Node]:
        names = list(names)
        nodes = await self._store.read_many([paths.partition_state(*name) for name in names])
        return {name: node for name, node in zip(names, nodes, strict=True) if node is not None}

    async def isr_notices(self) -> tuple[list[str], frozenset[TopicPartition]]:
        """Return the notices of leaders that have changed who is in sync, and the partitions they name."""
        found = [f"{paths.ISR_CHANGES}/{name}" for name in await self._store.children(paths.ISR_CHANGES)]
        nodes = await self._store.read_many(found)
        named = {
            name
            for path, node in zip(found, nodes, strict=True)
            if node is not None
            for name in records.decode_isr_change(path, node.data)
        }
        return found, frozenset(named)

    async def log_dir_events(self) -> tuple[list[str], frozenset[BrokerId]]:
        """Return the notices of log dirs that failed, and the brokers that they are of."""
        found = [f"{paths.LOG_DIR_EVENTS}/{name}" for name in await self._store.children(paths.LOG_DIR_EVENTS)]
        nodes = await self._store.read_many(found)
        pairs = zip(found, nodes, strict=True)
        return found, frozenset(
            records.decode_log_dir_event(path, node.data) for path, node in pairs if node is not None
        )

    async def _states_of(self, topics: Mapping[str, TopicRecord]) -> dict[TopicPartition, Node]:
        """Return the state of every partition of these topics; those that are missing are written."""
        first = {
            TopicPartition(name, index): Leadership(replicas[0], LeaderEpoch(0), replicas)
            for name, record in topics.items()
            for index, replicas in record.replicas.items()
        }
        states = await self._state_nodes(first)
        missing = {name: leadership for name, leadership in first.items() if name not in states}
        if missing:
            await self._complete(missing)
            states |= await self._state_nodes(missing)
        return states

    def _topic(
        self,
        name: str,
        record: TopicRecord,
        config: Node | None,
        states: Mapping[TopicPartition, Node],
        registrations: Mapping[BrokerId, int],
    ) -> ControlledTopic:
        overrides = {} if config is None else records.decode_configs(paths.topic_config(name), config.data)
        settings = TopicSettings.resolve(self._config, overrides)
        partitions = {}
        for index, replicas in record.replicas.items():
            assignment = Assignment(replicas, record.adding.get(index, ()), record.removing.get(index, ()))
            node = states[TopicPartition(name, index)]
            leadership = _leadership(TopicPartition(name, index), node)
            partition = partitions[index] = ControlledPartition(assignment, leadership, node.version)
            # Who has registered since the state was written was gone while no controller looked.
            partition.bounced = frozenset(broker for broker in replicas if registrations.get(broker, 0) > node.modified)
        return ControlledTopic(
            name, record.topic_id, partitions, allows_unclean=settings[replication.UNCLEAN_LEADER_ELECTION_ENABLE]
        )

    async def _complete(self, missing: Mapping[TopicPartition, Leadership]) -> None:
        """Write the states of partitions that were decided upon when a controller died."""
        creations: list[Operation] = []
        for name, leadership in missing.items():
            creations += [
                Create(paths.partition(*name)),
                Create(paths.partition_state(*name), self._record(leadership).encode()),
            ]
        await self._in_pieces(creations)

    # Writing --------------------------------------------------------------------------------------------------------

    async def write_states(
        self, changes: Mapping[TopicPartition, tuple[Leadership, int]]
    ) -> AsyncGenerator[StatesWritten, None]:
        """Write each state whose version is still the one given; tell piece by piece what was written. Raises Deposed.

        All pieces are under way at once. First come the first partitions of every topic, so that one with few does not
        wait for one with thousands.
        """
        names = sorted(changes, key=lambda name: (name.partition, name.topic))
        pieces = [names[start : start + _WRITES_AT_ONCE] for start in range(0, len(names), _WRITES_AT_ONCE)]
        writes = [asyncio.ensure_future(self._write_piece(changes, piece)) for piece in pieces]
        try:
            for write in writes:
                yield await write
        finally:
            for write in writes:
                write.cancel()
            await asyncio.gather(*writes, return_exceptions=True)

    async def _write_piece(
        self, changes: Mapping[TopicPartition, tuple[Leadership, int]], names: Sequence[TopicPartition]
    ) -> StatesWritten:
        late = await self._write(changes, names)
        alone = await asyncio.gather(*(self._write(changes, [name]) for name in late))
        refused = {name for piece in alone for name in piece}
        written = {name: (changes[name][0], changes[name][1] + 1) for name in names if name not in refused}
        return StatesWritten(written, await self.states(refused))

    async def _write(
        self, changes: Mapping[TopicPartition, tuple[Leadership, int]], names: Sequence[TopicPartition]
    ) -> Sequence[TopicPartition]:
        """Write these at once, and return none of them; or all of them, when one came too late."""
        writes = [
            Write(paths.partition_state(*name), self._record(changes[name][0]).encode(), changes[name][1])
            for name in names
        ]
        try:
            await self._multi(writes)
        except (BadVersion, NoNode):
            return names
        return ()

    async def write_assignment(self, topic: ControlledTopic) -> None:
        """Write where a topic's partitions are and shall be. Raises Deposed."""
        moving = {index: partition.assignment for index, partition in topic.partitions.items()}
        record = TopicRecord(
            topic.id,
            {index: assignment.replicas for index, assignment in moving.items()},
            {index: assignment.adding for index, assignment in moving.items() if assignment.adding},
            {index: assignment.removing for index, assignment in moving.items() if assignment.removing},
        )
        await self._multi([Write(paths.topic(topic.name), record.encode())])

    async def forget(self, notices: Sequence[str]) -> None:
        """Take notices away that were dealt with."""
        await asyncio.gather(*(self._store.delete(path) for path in notices), return_exceptions=True)

    async def finish_deletion(self, name: str) -> None:
        """Forget a topic whose data is gone everywhere, the decision to delete it last."""
        deletions: list[Operation] = []
        for index in await self._store.children(paths.partitions(name)):
            deletions += [
                Delete(paths.partition_state(name, int(index))),
                Delete(paths.partition(name, int(index))),
            ]
        await self._in_pieces(deletions)
        await self._multi(
            [
                Delete(paths.partitions(name)),
                Delete(paths.topic(name)),
                Delete(paths.topic_config(name)),
                Delete(paths.deleted_topic(name)),
            ]
        )

    async def _in_pieces(self, operations: Sequence[Operation]) -> None:
        for start in range(0, len(operations), _OPERATIONS_AT_ONCE):
            await self._multi(operations[start : start + _OPERATIONS_AT_ONCE])

    async def _multi(self, operations: Sequence[Operation]) -> None:
        try:
            await self._store.multi([self._fence, *operations])
        except BadVersion as error:
            if error.path == self._fence.path:
                raise Deposed(f"another controller was elected after epoch {self.epoch}") from error
            raise

    def _record(self, leadership: Leadership) -> PartitionStateRecord:
        return PartitionStateRecord(leadership.leader, leadership.epoch, leadership.isr, self.epoch)


def _leadership(name: TopicPartition, node: Node) -> Leadership:
    record = PartitionStateRecord.decode(paths.partition_state(*name), node.data)
    return Leadership(record.leader, LeaderEpoch(record.leader_epoch), record.isr)
