"""The replicas of one partition in memory, moved step by step: the real rules, without sockets, disks or clocks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import NO_BROKER, BrokerId, LeaderEpoch, Offset
from highwater.replication.fencing import check_replica_epoch
from highwater.replication.high_watermark import followers_high_watermark
from highwater.replication.leader import IsrProposal, LeaderState
from highwater.replication.truncation import EpochEnd, divergence, truncation_offset
from highwater.storage.files import OsFiles
from highwater.storage.leader_epochs import EpochStart, LeaderEpochs

MAX_LAG_MS: Final = 10_000


class EpochsInMemory(LeaderEpochs):
    """A log's real leader epochs, without their file."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(OsFiles(), Path())

    def _replace(self, entries: list[EpochStart]) -> None:
        self._entries = entries
        self.latest = self.recorded = entries[-1].epoch if entries else -1


class Written(NamedTuple):
    """One record: what it says, and the epoch of the leader that wrote it."""

    epoch: LeaderEpoch
    text: str


class FetchAsked(NamedTuple):
    """A follower's fetch: whom it believes to lead, where its log ends, and who wrote the end of it."""

    follower: BrokerId
    leader_epoch: LeaderEpoch
    offset: Offset
    last_epoch: int


class FetchAnswer(NamedTuple):
    """A leader's answer to it; `offset` is the one that was asked for."""

    offset: Offset
    leader_epoch: LeaderEpoch
    high_watermark: Offset
    records: tuple[Written, ...]
    diverging: EpochEnd | None


class Replica:
    """One replica. Its log and its high watermark survive a crash; what it knew of the others does not."""

    def __init__(self, broker: BrokerId) -> None:
        self.id = broker
        self.is_alive = True
        self.log: list[Written] = []
        self.epochs = EpochsInMemory()
        self.high_watermark = Offset(0)
        self.epoch = LeaderEpoch(-1)
        self.leading: LeaderState | None = None

    @property
    def end_offset(self) -> Offset:
        """Where the next record goes."""
        return Offset(len(self.log))

    @property
    def texts(self) -> str:
        """What its log says, one letter a record."""
        return "".join(record.text for record in self.log)

    def append(self, record: Written) -> None:
        """Add a record at the end."""
        self.epochs.assign(record.epoch, self.end_offset)
        self.log.append(record)

    def truncate(self, offset: Offset) -> None:
        """Remove all from `offset` on."""
        del self.log[offset:]
        self.epochs.cut_end(offset)
        self.high_watermark = min(self.high_watermark, self.end_offset)


class ReplicaGroup:
    """A partition: its replicas, the state that the cluster has agreed upon, and the time."""

    def __init__(self, *names: str, truncates_by_high_watermark: bool = False, agrees_late: bool = False) -> None:
        self._by_high_watermark = truncates_by_high_watermark
        self._agrees_late = agrees_late
        self.proposed: list[IsrProposal] = []
        """What leaders have proposed and is still on its way, if the cluster agrees late."""
        self.replicas = {BrokerId(number): Replica(BrokerId(number)) for number in range(len(names))}
        self._ids = {name: BrokerId(number) for number, name in enumerate(names)}
        self.now_ms = 0
        self.leader = NO_BROKER
        self.epoch = LeaderEpoch(-1)
        self.isr: tuple[BrokerId, ...] = tuple(self.replicas)
        self.version = 0

    def __getitem__(self, name: str) -> Replica:
        return self.replicas[self._ids[name]]

    # The cluster's decisions ----------------------------------------------------------------------------------------

    def elect(self, name: str, *, tell: Sequence[str] | None = None, unclean: bool = False) -> None:
        """Let a replica lead; only the living that are named in `tell` learn of it (by default all)."""
        leader = self._ids[name]
        living = tuple(broker for broker in self.isr if self.replicas[broker].is_alive)
        assert unclean or leader in living, f"{name} is not in sync"
        self.leader, self.epoch, self.version = leader, LeaderEpoch(self.epoch + 1), self.version + 1
        self.isr = (leader,) if unclean else living
        self.tell(*(self._ids if tell is None else tell))

    def tell(self, *names: str) -> None:
        """Tell replicas who leads."""
        for replica in (self[name] for name in names):
            if not replica.is_alive or replica.epoch >= self.epoch:
                continue
            replica.epoch = self.epoch
            replica.leading = self._leadership(replica) if replica.id == self.leader else None
            if replica.leading is None and self._by_high_watermark:
                replica.truncate(replica.high_watermark)

    def electable(self) -> list[str]:
        """Return who could lead without losing anything that is committed."""
        return [name for name, broker in self._ids.items() if broker in self.isr and self.replicas[broker].is_alive]

    def propose(self, proposal: IsrProposal | None) -> bool:
        """Take a leader's proposal; return whether it was agreed upon at once."""
        if proposal is None:
            return False
        if self._agrees_late:
            self.proposed.append(proposal)
            return False
        return self.commit(proposal)

    def commit(self, proposal: IsrProposal) -> bool:
        """Agree to in-sync replicas as proposed, if nothing was decided since; tell a leader that is still there."""
        leading = self.replicas[proposal.leader].leading
        if leading is not None and leading.epoch != proposal.epoch:
            leading = None
        if (proposal.expected_version, proposal.epoch) != (self.version, self.epoch):
            if leading is not None:
                leading.overtaken()
            return False
        self.isr, self.version = proposal.isr, self.version + 1
        if leading is not None:
            leading.isr_committed(self.isr, self.version)
            self._advance(self.replicas[proposal.leader])
        return True

    # The replicas' lives --------------------------------------------------------------------------------------------

    def crash(self, name: str, *, losing: int = 0) -> None:
        """Stop a replica; a power cut takes the last records, which were not synced, with it."""
        replica = self[name]
        replica.is_alive, replica.leading = False, None
        kept = Offset(len(replica.log) - losing)
        watermark = replica.high_watermark
        replica.truncate(kept)
        replica.high_watermark = min(watermark, kept)

    def restart(self, name: str) -> None:
        """Start a replica again; it learns who leads by `tell`."""
        replica = self[name]
        replica.is_alive, replica.epoch = True, LeaderEpoch(-1)
        if self._by_high_watermark:
            replica.truncate(replica.high_watermark)

    def write(self, text: str, *, to: str | None = None) -> Offset:
        """Append one record at the leader (or at one that believes to lead), and return its offset."""
        replica = self.replicas[self.leader] if to is None else self[to]
        leading = replica.leading
        if leading is None:
            raise KafkaError("not the leader", code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        offset = replica.end_offset
        replica.append(Written(leading.epoch, text))
        leading.appended(replica.end_offset, now_ms=self.now_ms)
        self._advance(replica)
        return offset

    def is_committed(self, offset: Offset) -> bool:
        """Return whether a write with acks=all at `offset` is answered by whoever leads."""
        return self.replicas[self.leader].high_watermark > offset

    # A fetch, whole or in its three steps ---------------------------------------------------------------------------

    def fetch(self, name: str, *, from_: str | None = None) -> FetchAnswer:
        """Let a follower fetch once, and join the in-sync replicas if that makes it one."""
        leader = next(key for key, broker in self._ids.items() if broker == self.leader) if from_ is None else from_
        answer = self.answer(leader, self.ask(name))
        self.apply(name, answer)
        return answer

    def ask(self, name: str) -> FetchAsked:
        """Return the fetch that a follower would send now."""
        replica = self[name]
        return FetchAsked(replica.id, replica.epoch, replica.end_offset, replica.epochs.latest)

    def answer(self, name: str, asked: FetchAsked) -> FetchAnswer:
        """Return what a leader answers; it learns how far the follower is, unless their logs differ."""
        replica = self[name]
        leading = replica.leading
        if leading is None or not replica.is_alive:
            raise KafkaError("not the leader", code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        check_replica_epoch(asked.leader_epoch, leading.epoch)
        diverging = None
        if asked.last_epoch >= 0 and not self._by_high_watermark:
            diverging = divergence(
                replica.epochs, replica.end_offset, last_epoch=asked.last_epoch, fetch_offset=asked.offset
            )
        if diverging is None:
            leading.fetched(asked.follower, asked.offset, now_ms=self.now_ms)
            self._advance(replica)
            self.propose(leading.propose_growth(replica.high_watermark, now_ms=self.now_ms))
        records = () if diverging is not None else tuple(replica.log[asked.offset :])
        return FetchAnswer(asked.offset, leading.epoch, replica.high_watermark, records, diverging)

    def apply(self, name: str, answer: FetchAnswer) -> None:
        """Let a follower act upon an answer, unless its leader or its log is not what it was when it asked."""
        replica = self[name]
        if not replica.is_alive or replica.leading is not None:
            return
        if (answer.leader_epoch, answer.offset) != (replica.epoch, replica.end_offset):
            return
        if answer.diverging is not None:
            replica.truncate(truncation_offset(replica.epochs, replica.end_offset, answer.diverging))
            return
        for record in answer.records:
            replica.append(record)
        replica.high_watermark = followers_high_watermark(Offset(0), replica.end_offset, answer.high_watermark)

    def catch_up(self, name: str) -> None:
        """Let a follower fetch until its log is the leader's."""
        for _ in range(100):
            answer = self.fetch(name)
            if answer.diverging is None and not answer.records:
                return
        raise AssertionError(f"{name} never agrees with its leader")

    def shrink(self) -> bool:
        """Let the leader look who has been behind for too long."""
        leading = self.replicas[self.leader].leading
        assert leading is not None
        return self.propose(leading.propose_shrinking(now_ms=self.now_ms))

    def _leadership(self, replica: Replica) -> LeaderState:
        replica.epochs.assign(self.epoch, replica.end_offset)
        leading = LeaderState(
            replica.id,
            epoch=self.epoch,
            replicas=tuple(self.replicas),
            isr=self.isr,
            isr_version=self.version,
            end_offset=replica.end_offset,
            max_lag_ms=MAX_LAG_MS,
            now_ms=self.now_ms,
        )
        replica.high_watermark = leading.high_watermark(
            replica.high_watermark, own_end=replica.end_offset, now_ms=self.now_ms
        )
        return leading

    def _advance(self, replica: Replica) -> None:
        assert replica.leading is not None
        replica.high_watermark = replica.leading.high_watermark(
            replica.high_watermark, own_end=replica.end_offset, now_ms=self.now_ms
        )
