"""The invariants of replication, checked after every turn of every broker.

What is committed is kept in a ledger of our own, batch by batch, as leaders' watermarks pass over it. Every replica is
compared with the ledger as far as it may be read, every new leader as far as the ledger goes. Names are those of
`docs/simulator.md`.
"""

from __future__ import annotations

from collections import deque
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from highwater.coordination import paths
from highwater.coordination.records import PartitionStateRecord, TopicRecord
from highwater.model.errors import KafkaError
from highwater.model.ids import TopicPartition
from highwater.protocol.records.batch import BatchHeader, checksum, iter_batches
from highwater_history.violation import Violation
from highwater_sim.violation import Violated

if TYPE_CHECKING:
    from highwater.broker.partition import Partition
    from highwater_sim.cluster import Cluster
    from highwater_sim.machine import Machine
    from highwater_sim.trace import Trace

MAX_BYTES: Final = 1 << 20
_STATE: Final = attrgetter("high_watermark", "log.log_end_offset", "leader_epoch", "leads", "log.log_start_offset")
"""All of a replica that a turn may change and the checks look at."""
TOPIC_DEPTH: Final = paths.topic("t").count("/")
STORM_WRITES: Final = 60
STORM_S: Final = 2.0
"""Nothing that a cluster should do writes the state of one partition so often within such a time."""


class Batch(NamedTuple):
    """A committed batch, as every replica must have it."""

    base_offset: int
    next_offset: int
    crc: int
    leader_epoch: int


class Ledger:
    """What was committed in one partition, whoever led it."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.leader_epoch = -1
        """The newest epoch whose leader has committed anything."""
        self._index: dict[int, int] = {}

    @property
    def end(self) -> int:
        """The first offset that is not committed, for all we know."""
        return self.batches[-1].next_offset if self.batches else 0

    def add(self, batch: Batch) -> None:
        """Take what was committed next."""
        self._index[batch.base_offset] = len(self.batches)
        self.batches.append(batch)

    def at(self, offset: int) -> Batch | None:
        """Return the committed batch that begins at an offset."""
        number = self._index.get(offset)
        return None if number is None else self.batches[number]


class _Seen:
    """One replica as it was when last looked at."""

    __slots__ = ("high_watermark", "leader_epoch", "leads", "log_end", "partition", "verified")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.leads = False
        self.leader_epoch = -1
        self.log_end = -1
        self.high_watermark = -1
        self.verified = 0
        """Up to here the log was compared with the ledger."""


class ReplicaChecks:
    """Looks at brokers and at the store, and stops the simulation at the first violation."""

    def __init__(self, cluster: Cluster, *, compared_topics: frozenset[str], trace: Trace) -> None:
        self._cluster = cluster
        self._trace = trace
        self._compared = compared_topics
        self._seen: dict[int, dict[TopicPartition, _Seen]] = {machine.broker_id: {} for machine in cluster.machines}
        self._last_states: dict[int, dict[Partition, tuple[object, ...]]] = {}
        """What each broker's partitions were like when they were last looked at."""
        self._looked_at: dict[int, object] = {}
        self._obeyed: dict[int, int] = {}
        """The epoch of the controller that each broker has last heard of."""
        self.latest_starts: dict[TopicPartition, int] = {}
        """The last record before here was deleted by some replica."""
        self.ledgers: dict[TopicPartition, Ledger] = {}
        self._leaders: dict[tuple[TopicPartition, bytes, int], int] = {}
        self._states: dict[TopicPartition, PartitionStateRecord] = {}
        self._written_at: dict[TopicPartition, deque[float]] = {}
        self._assigned: dict[TopicPartition, tuple[int, ...]] = {}
        """Who holds a replica: a member of the in-sync set that was taken away is nobody whom it matters for."""
        self._controller_epoch = 0
        self.checks = 0
        cluster.store.on_change.append(self._stored)
        for machine in cluster.machines:
            machine.on_turn = self.look

    def forget(self) -> None:
        """Let go of the brokers that were looked at."""
        self._seen.clear()
        self._last_states.clear()
        self._looked_at.clear()

    def _fail(self, invariant: str, what: str) -> None:
        raise Violated(Violation(invariant, what, self._cluster.scheduler.now))

    def leader_epochs(self) -> dict[TopicPartition, int]:
        """Return the leader epoch of every partition, as it is written."""
        return {name: state.leader_epoch for name, state in self._states.items()}

    # The store ------------------------------------------------------------------------------------------------------

    def _stored(self, kind: str, path: str) -> None:
        if kind != "node":
            return
        if path == paths.CONTROLLER_EPOCH:
            epoch = int(self._cluster.store.read(path).data)
            if epoch < self._controller_epoch:
                self._fail("controller-epoch-goes-back", f"{self._controller_epoch} -> {epoch}")
            self._controller_epoch = epoch
        elif path.startswith(paths.TOPICS) and path.endswith("/state"):
            self._state_written(path)
        elif path.startswith(paths.TOPICS) and path.count("/") == TOPIC_DEPTH:
            self._topic_written(path)

    def _topic_written(self, path: str) -> None:
        node = self._cluster.store.find(path)
        if node is not None:
            topic = path.rpartition("/")[2]
            written = TopicRecord.decode(path, node.data).replicas
            for name in self._states:
                if name.topic == topic and name.partition not in written:
                    self._fail("partitions-stay", f"{name} has a state and is no longer part of its topic")
            for index, replicas in written.items():
                self._assigned[TopicPartition(topic, index)] = replicas

    def _state_written(self, path: str) -> None:
        parts = path.split("/")
        name = TopicPartition(parts[3], int(parts[5]))
        node = self._cluster.store.find(path)
        if node is None:
            self._states.pop(name, None)
            return
        state = PartitionStateRecord.decode(path, node.data)
        before = self._states.get(name)
        self._states[name] = state
        self._check_calm(name, state)
        if not state.isr:
            self._fail("isr-empty", f"{name} has no replica in sync")
        if state.leader >= 0 and state.leader not in state.isr:
            self._fail("leader-in-isr", f"broker {state.leader} leads {name}, in sync are {state.isr}")
        if before is not None:
            if state.leader_epoch < before.leader_epoch:
                self._fail("leader-epoch-goes-back", f"{name}: {before.leader_epoch} -> {state.leader_epoch}")
            if state.leader_epoch == before.leader_epoch and state.leader != before.leader:
                self._fail(
                    "one-leader-per-epoch", f"{name}, epoch {state.leader_epoch}: {before.leader}, {state.leader}"
                )
        for broker in state.isr:
            self._check_in_sync(name, broker)

    def _check_calm(self, name: TopicPartition, state: PartitionStateRecord) -> None:
        """Check that nobody takes back again and again what somebody else has written."""
        now = self._cluster.scheduler.now
        times = self._written_at.setdefault(name, deque(maxlen=STORM_WRITES))
        if len(times) == STORM_WRITES and now - times[0] < STORM_S:
            self._fail("states-settle", f"{STORM_WRITES} states of {name} within {now - times[0]:.2f} s, now {state}")
        times.append(now)

    def _check_in_sync(self, name: TopicPartition, broker: int) -> None:
        """Check that an in-sync replica which knows of this epoch has all that is committed."""
        seen = self._seen[broker].get(name)
        machine = self._cluster.machine(broker)
        state, ledger = self._states.get(name), self.ledgers.get(name)
        if seen is None or state is None or ledger is None or machine.node is None:
            return
        partition = seen.partition
        if (
            broker in state.isr
            and broker in self._assigned.get(name, state.isr)
            and partition.leader_epoch == state.leader_epoch
            and _end(partition) < ledger.end
        ):
            self._fail(
                "committed-on-every-isr-member",
                f"{name} is committed up to {ledger.end}; broker {broker} is in sync ({state.isr}, epoch "
                f"{state.leader_epoch}) and ends at {_end(partition)}",
            )

    # Brokers --------------------------------------------------------------------------------------------------------

    def look(self, machine: Machine) -> None:
        """Look at everything on one broker that has changed since its last turn."""
        node = machine.node
        if node is None:
            return
        if self._looked_at.get(machine.broker_id) is not node:
            self._looked_at[machine.broker_id] = node
            self._seen[machine.broker_id] = {}
            self._last_states[machine.broker_id] = {}
            self._obeyed[machine.broker_id] = 0
        if node.broker is not None:
            self._check_obedience(machine.broker_id, node.broker.cluster.controller_epoch)
        all_seen, last_states = self._seen[machine.broker_id], self._last_states[machine.broker_id]
        for partition in node.partitions:
            state = _STATE(partition)
            if last_states.get(partition) == state:
                continue
            last_states[partition] = state
            seen = all_seen.get(partition.name)
            if seen is None or seen.partition is not partition:
                seen = all_seen[partition.name] = _Seen(partition)
            self._check(machine, seen, partition)

    def _check_obedience(self, broker: int, epoch: int) -> None:
        if epoch < self._obeyed[broker]:
            self._fail("controller-epoch-goes-back", f"on broker {broker}: {self._obeyed[broker]} -> {epoch}")
        self._obeyed[broker] = epoch

    def _check(self, machine: Machine, seen: _Seen, partition: Partition) -> None:
        self.checks += 1
        self._trace.replica(self._cluster.scheduler.now, machine, partition)
        name, broker = partition.name, machine.broker_id
        end, watermark = partition.log.log_end_offset, partition.high_watermark
        if watermark > end:
            self._fail("watermark-above-log-end", f"{name} on broker {broker}: {watermark} > {end}")
        start = partition.log.log_start_offset
        self.latest_starts[name] = max(start, self.latest_starts.get(name, 0))
        if partition.leads and start > watermark:
            self._fail("starts-above-watermark", f"{name} on broker {broker}: {start}")
        if partition.leader_epoch < seen.leader_epoch:
            self._fail("leader-epoch-goes-back", f"{name} on broker {broker}")
        is_same_term = partition.leads and seen.leads and partition.leader_epoch == seen.leader_epoch
        if is_same_term and watermark < seen.high_watermark:
            self._fail("watermark-goes-back", f"{name} on leader {broker}: {seen.high_watermark} -> {watermark}")
        if is_same_term and end < seen.log_end:
            self._fail("leader-truncates", f"{name} on leader {broker}: {seen.log_end} -> {end}")
        if partition.last_stable_offset > watermark:
            self._fail("stable-above-watermark", f"{name} on broker {broker}")
        seen.verified = min(seen.verified, end)
        begins_to_lead = partition.leads and not is_same_term
        seen.leads, seen.leader_epoch = partition.leads, partition.leader_epoch
        seen.log_end, seen.high_watermark = end, watermark
        if partition.leads:
            self._check_leader(machine, seen, begins=begins_to_lead)
        if name.topic in self._compared:
            self._compare(machine, seen, up_to=watermark)
        self._check_in_sync(name, broker)

    def _check_leader(self, machine: Machine, seen: _Seen, *, begins: bool) -> None:
        partition = seen.partition
        name, broker = partition.name, machine.broker_id
        term = name, bytes(partition.topic_id), partition.leader_epoch
        if self._leaders.setdefault(term, broker) != broker:
            self._fail(
                "one-leader-per-epoch", f"{name}, epoch {partition.leader_epoch}: {self._leaders[term]}, {broker}"
            )
        if partition.leadership is not None:
            members = set(partition.leadership.maximal_isr)
            state = self._states.get(name)
            if state is not None and (state.leader, state.leader_epoch) == (broker, partition.leader_epoch):
                members |= set(state.isr)
            for member in sorted(members.intersection(partition.replicas)):
                self._check_has(name, member, partition.high_watermark, leader=broker)
        ledger = self._ledger(name)
        # One that was paused may still begin what is long over: it can commit nothing, and is not looked at.
        if begins and name.topic in self._compared and partition.leader_epoch >= ledger.leader_epoch:
            if partition.log.log_end_offset < ledger.end:
                self._fail(
                    "committed-on-next-leader",
                    f"{name} is committed up to {ledger.end}; broker {broker} begins to lead in epoch "
                    f"{partition.leader_epoch} and ends at {partition.log.log_end_offset}",
                )
            self._compare(machine, seen, up_to=ledger.end)

    def _check_has(self, name: TopicPartition, member: int, watermark: int, *, leader: int) -> None:
        """Check that a member of the maximal ISR has all below the leader's watermark, if it can be looked at."""
        node = self._cluster.machine(member).node
        partition = node.partitions.get(name.topic, name.partition) if node is not None else None
        mine = self._cluster.machine(leader).node
        ours = mine.partitions.get(name.topic, name.partition) if mine is not None else None
        if partition is None or ours is None or partition.leader_epoch != ours.leader_epoch:
            return  # dead, new, or of another term: then others are asked
        if _end(partition) < watermark:
            self._fail(
                "watermark-within-isr",
                f"leader {leader} says that {name} is committed up to {watermark}; broker {member} ends at "
                f"{_end(partition)}",
            )

    # Contents -------------------------------------------------------------------------------------------------------

    def _ledger(self, name: TopicPartition) -> Ledger:
        ledger = self.ledgers.get(name)
        if ledger is None:
            ledger = self.ledgers[name] = Ledger()
        return ledger

    def _compare(self, machine: Machine, seen: _Seen, *, up_to: int) -> None:
        """Compare a replica with what was committed; what a leader has committed first is what others must have."""
        partition, ledger = seen.partition, self._ledger(seen.partition.name)
        seen.verified = max(seen.verified, partition.log.log_start_offset)
        while seen.verified < up_to:
            batches = self._batches(partition, seen.verified, up_to, machine)
            if not batches:
                return
            for batch in batches:
                known = ledger.at(batch.base_offset)
                if known is not None and known != batch:
                    self._fail(
                        "replicas-agree",
                        f"{partition.name} on broker {machine.broker_id} has {batch} where {known} was committed",
                    )
                if known is None and batch.base_offset < ledger.end:
                    self._fail(
                        "replicas-agree", f"{partition.name} on broker {machine.broker_id} has {batch} inside another"
                    )
                if known is None and partition.leads and batch.next_offset <= partition.high_watermark:
                    ledger.add(batch)
                    ledger.leader_epoch = max(ledger.leader_epoch, partition.leader_epoch)
                elif known is None:
                    return  # a follower that knows of it before we looked at its leader
                seen.verified = batch.next_offset

    def _batches(self, partition: Partition, start: int, up_to: int, machine: Machine) -> list[Batch]:
        try:
            region = partition.log.read(start, max_bytes=MAX_BYTES, up_to=up_to)
        except KafkaError as error:
            self._fail("log-can-be-read", f"{partition.name} on broker {machine.broker_id} at {start}: {error}")
            return []
        if region is None:
            return []
        data = memoryview(region.read())
        batches = []
        for at, header in iter_batches(data):
            if checksum(data, at, header.size) != header.crc:
                if machine.disk.has_flipped_bit:
                    break  # known to be so, here and nowhere else
                self._fail("checksums", f"{partition.name} on broker {machine.broker_id} at {header.base_offset}")
            if header.base_offset >= start:
                batches.append(_batch(header))
        return batches


def _batch(header: BatchHeader) -> Batch:
    return Batch(header.base_offset, header.next_offset, header.crc, header.leader_epoch)


def _end(partition: Partition) -> int:
    return partition.log.log_end_offset
