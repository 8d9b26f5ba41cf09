"""Has the cluster agree upon in-sync replicas: proposals become conditional writes, and are told to the controller.

A leader writes the state of its partition only if nobody has written it since: then it still leads, and nobody was
elected from in-sync replicas that it is about to change. A write whose outcome is unknown is looked up, never guessed.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from highwater.coordination import paths, records
from highwater.coordination.port import BadVersion, CoordinationError, NoNode
from highwater.coordination.records import PartitionStateRecord
from highwater.model.errors import KafkaError
from highwater.model.log_events import EventLog

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task

    from highwater.broker.cluster import Cluster
    from highwater.broker.partition import Partition
    from highwater.broker.partitions import Partitions
    from highwater.coordination.port import Coordination, Node
    from highwater.model.ids import BrokerId, TopicPartition
    from highwater.replication.leader import IsrProposal

events = EventLog("replication")

QUIET_BEFORE_NOTICE_MS: Final = 500
LONGEST_WITHOUT_NOTICE_MS: Final = 5_000
"""Apache Kafka waits for 5 s of quiet, up to a minute; what clients are told of in-sync replicas is as old as that."""
WRITES_AT_ONCE: Final = 100
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 5.0
PARTITIONS_PER_BREATH: Final = 500


class IsrKeeper:
    """Looks for followers that lag, and carries out what leaders propose, one proposal per partition at a time."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        broker_id: BrokerId,
        store: Coordination,
        *,
        cluster: Cluster,
        partitions: Partitions,
        max_lag_ms: int,
        pushes_watermark: bool = False,
    ) -> None:
        self._loop = loop
        self.broker_id = broker_id
        self._store = store
        self._partitions = partitions
        self.max_lag_ms = max_lag_ms
        self.pushes_watermark = pushes_watermark
        self._cluster = cluster
        self._proposed: dict[Partition, IsrProposal] = {}
        self._has_proposals = asyncio.Event()
        self._changed: dict[TopicPartition, None] = {}
        self._changed_ms = 0
        self._has_changes = asyncio.Event()
        self._tasks: list[Task[None]] = []
        self.shrinks = self.expansions = 0

    def start(self) -> None:
        """Begin to look and to write."""
        self._tasks = [
            self._loop.create_task(work)
            for work in (self._write_proposals(), self._look_for_lag(), self._post_notices())
        ]

    def stop(self) -> None:
        """End; what was proposed and not written stays undecided."""
        for task in self._tasks:
            task.cancel()

    def now_ms(self) -> int:
        """Return the time of the loop's clock, which never jumps."""
        return int(self._loop.time() * 1000)

    def propose(self, partition: Partition, proposal: IsrProposal) -> None:
        """Have the cluster agree. A leader has one proposal at a time, so no more wait than there are partitions."""
        self._proposed[partition] = proposal
        self._has_proposals.set()

    async def _look_for_lag(self) -> None:
        while True:
            await asyncio.sleep(self.max_lag_ms / 2000)
            for number, partition in enumerate(self._partitions, start=1):
                partition.shrink_isr()
                if number % PARTITIONS_PER_BREATH == 0:
                    await asyncio.sleep(0)

    # Writing --------------------------------------------------------------------------------------------------------

    async def _write_proposals(self) -> None:
        while True:
            await self._has_proposals.wait()
            taken = list(self._proposed.items())[:WRITES_AT_ONCE]
            for partition, _ in taken:
                del self._proposed[partition]
            if not self._proposed:
                self._has_proposals.clear()
            await asyncio.gather(*(self._write(partition, proposal) for partition, proposal in taken))

    async def _write(self, partition: Partition, proposal: IsrProposal) -> None:
        """Write one proposal until it is known what became of it."""
        path = paths.partition_state(*partition.name)
        state = PartitionStateRecord(proposal.leader, proposal.epoch, proposal.isr, self._cluster.controller_epoch)
        data = state.encode()
        pause_s = FIRST_PAUSE_S
        while partition.leads and partition.leader_epoch == proposal.epoch:
            try:
                version = await self._store.write(path, data, version=proposal.expected_version)
            except NoNode:
                partition.isr_overtaken(proposal)
                return
            except BadVersion:
                if await self._look_up(partition, proposal, path):
                    return
            except CoordinationError as error:
                if pause_s == FIRST_PAUSE_S:  # said once: hundreds may be tried again for as long as ZooKeeper is away
                    events.warning("isr_not_written", partition=partition.name, reason=str(error))
            else:
                self._committed(partition, proposal, proposal.isr, version)
                return
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _look_up(self, partition: Partition, proposal: IsrProposal, path: str) -> bool:
        """Find out what was agreed upon instead; return False if that cannot be known now.

        If the state is still one of our epoch, then we wrote it: an earlier try arrived although we did not hear so.
        """
        try:
            node: Node = await self._store.read(path)
            state = PartitionStateRecord.decode(path, node.data)
        except NoNode:
            partition.isr_overtaken(proposal)
            return True
        except KafkaError as error:
            events.warning("isr_not_read", partition=partition.name, reason=str(error))
            return False
        if (state.leader, state.leader_epoch) == (proposal.leader, proposal.epoch):
            self._committed(partition, proposal, state.isr, node.version)
        else:
            events.info("isr_overtaken", partition=partition.name, epoch=proposal.epoch, by=state.leader_epoch)
            partition.isr_overtaken(proposal)
        return True

    def _committed(self, partition: Partition, proposal: IsrProposal, isr: tuple[BrokerId, ...], version: int) -> None:
        events.info("isr_changed", partition=partition.name, isr=",".join(map(str, isr)), version=version)
        self._changed[partition.name] = None
        self._changed_ms = self.now_ms()
        self._has_changes.set()
        before = len(partition.in_sync_replicas)
        self.shrinks += len(isr) < before
        self.expansions += len(isr) > before
        partition.isr_committed(proposal, isr, version)

    # Telling --------------------------------------------------------------------------------------------------------

    async def _post_notices(self) -> None:
        """Tell the controller which partitions have changed: not one by one while many followers come and go."""
        while True:
            await self._has_changes.wait()
            deadline_ms = self.now_ms() + LONGEST_WITHOUT_NOTICE_MS
            while (rest_ms := min(self._changed_ms + QUIET_BEFORE_NOTICE_MS, deadline_ms) - self.now_ms()) > 0:  # noqa: ASYNC110 - for quiet
                await asyncio.sleep(rest_ms / 1000)
            self._has_changes.clear()
            changed, self._changed = self._changed, {}
            try:
                await self._store.create(paths.ISR_CHANGE, records.encode_isr_change(changed), sequence=True)
            except CoordinationError as error:
                events.warning("isr_change_not_told", reason=str(error))
                self._changed = changed | self._changed
                self._changed_ms = self.now_ms()  # so that it is tried again after a while
                self._has_changes.set()
