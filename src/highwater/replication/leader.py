"""What the leader of a partition knows and decides: who has what, what is committed, who is in sync.

No I/O and no clock: it is told what happened and when, and returns numbers and proposals. Two sets of in-sync replicas
are kept apart (KIP-497). The committed one is what the cluster has agreed upon: from it the next leader is elected. The
maximal one also counts whom we have proposed to add, and still counts whom we have proposed to remove: whichever of the
two the cluster agrees upon, what we called committed is on all of its members.
"""

from collections.abc import Collection
from typing import NamedTuple

from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import BrokerId, LeaderEpoch, Offset
from highwater.replication.high_watermark import leaders_high_watermark
from highwater.replication.remote_replica import NEVER_MS, RemoteReplica


class IsrProposal(NamedTuple):
    """In-sync replicas as a leader wants them, if the partition's state has still the version that it knows."""

    leader: BrokerId
    epoch: LeaderEpoch
    isr: tuple[BrokerId, ...]
    expected_version: int


class LeaderState:
    """The leadership of one partition during one leader epoch; a new epoch begins with a new one of these."""

    __slots__ = (
        "_is_overtaken",
        "_max_lag_ms",
        "_me",
        "_proposed",
        "end_offset",
        "epoch",
        "isr",
        "isr_version",
        "maximal_isr",
        "remotes",
        "start_offset",
    )

    def __init__(
        self,
        me: BrokerId,
        *,
        epoch: LeaderEpoch,
        replicas: Collection[BrokerId],
        isr: tuple[BrokerId, ...],
        isr_version: int,
        end_offset: Offset,
        max_lag_ms: int,
        now_ms: int,
    ) -> None:
        assert me in isr, "a leader is in sync with itself"
        self._me = me
        self._max_lag_ms = max_lag_ms
        self.epoch = epoch
        self.start_offset = end_offset
        """Where this epoch begins: what the log held when it did."""
        self.end_offset = end_offset
        self.isr = isr
        """What the cluster has agreed upon."""
        self.isr_version = isr_version
        self.maximal_isr = frozenset(isr)
        self.remotes = {
            broker: RemoteReplica(caught_up_ms=now_ms if broker in isr else NEVER_MS)
            for broker in replicas
            if broker != me
        }
        self._proposed: IsrProposal | None = None
        self._is_overtaken = False

    def replicas_changed(self, replicas: Collection[BrokerId]) -> None:
        """Note who holds a replica now: followers are added and taken away while a partition is moved."""
        self.remotes = {
            broker: self.remotes.get(broker) or RemoteReplica(caught_up_ms=NEVER_MS)
            for broker in replicas
            if broker != self._me
        }

    # What is committed ----------------------------------------------------------------------------------------------

    def appended(self, end_offset: Offset, *, now_ms: int) -> None:
        """Note that our log has grown. Until now, whoever had all of it was caught up.

        (Apache Kafka refreshes a follower's time with every fetch. Here an idle follower's session need not mention the
        partition, so a thousand idle partitions cost nothing.)
        """
        for remote in self.remotes.values():
            if remote.end_offset >= self.end_offset:
                remote.caught_up_ms = now_ms
        self.end_offset = end_offset

    def fetched(self, broker: BrokerId, offset: Offset, *, log_start: int = 0, now_ms: int) -> None:
        """Note a follower's fetch, which carried our epoch: what it says holds for our log and no other."""
        remote = self.remotes.get(broker)
        if remote is None:
            raise KafkaError(f"broker {broker} has no replica of this", code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
        remote.log_start = log_start
        remote.fetched(offset, leaders_end=self.end_offset, now_ms=now_ms)

    def low_watermark(self, own_start: int, live: Collection[BrokerId]) -> int:
        """Return where the last of the logs on live brokers starts, as far as these have told in this epoch."""
        return min([own_start, *(remote.log_start for broker, remote in self.remotes.items() if broker in live)])

    def high_watermark(self, current: Offset, *, own_end: Offset, now_ms: int) -> Offset:
        """Return how far all is committed; `own_end` is our own log's end, or how far it is synced.

        Followers that are not in sync yet, but are caught up, are waited for too: they are about to join, and none may
        join behind the watermark.
        """
        ends = [own_end]
        for broker, remote in self.remotes.items():
            if broker in self.maximal_isr or not self._lags(remote, now_ms):
                ends.append(remote.end_offset)
        return leaders_high_watermark(current, ends)

    # Who is in sync -------------------------------------------------------------------------------------------------

    def propose_growth(self, high_watermark: Offset, *, now_ms: int) -> IsrProposal | None:
        """Return a proposal to add whoever has all that is committed, and all up to where our epoch begins.

        The second matters while our watermark is still behind our predecessor's: what lies between may be committed,
        and a replica without it must not be electable.
        """
        if self._cannot_propose:
            return None
        enough = max(high_watermark, self.start_offset)
        joining = tuple(
            broker
            for broker, remote in self.remotes.items()
            if broker not in self.maximal_isr and remote.end_offset >= enough and not self._lags(remote, now_ms)
        )
        return self._propose((*self.isr, *joining)) if joining else None

    def propose_shrinking(self, *, now_ms: int) -> IsrProposal | None:
        """Return a proposal to remove whoever has been behind for too long."""
        if self._cannot_propose:
            return None
        staying = tuple(
            broker
            for broker in self.isr
            if broker == self._me or (broker in self.remotes and not self._lags(self.remotes[broker], now_ms))
        )
        return self._propose(staying) if len(staying) < len(self.isr) else None

    def isr_committed(self, isr: tuple[BrokerId, ...], version: int) -> None:
        """Note that the cluster has agreed upon these, by our proposal or otherwise."""
        if version <= self.isr_version:
            return  # Overtaken by a newer answer, which stands.
        assert self._me in isr, "a leader is in sync with itself"
        self.isr = isr
        self.isr_version = version
        self.maximal_isr = frozenset(isr)
        self._proposed = None

    def overtaken(self) -> None:
        """Note that the partition has a newer epoch than ours: we will be told; until then we change nothing.

        What we proposed keeps counting for the watermark, for we do not know what was agreed upon instead.
        """
        self._is_overtaken = True

    @property
    def _cannot_propose(self) -> bool:
        """One proposal at a time: the next one needs the version that this one leads to."""
        return self._proposed is not None or self._is_overtaken

    def _propose(self, isr: tuple[BrokerId, ...]) -> IsrProposal:
        self._proposed = IsrProposal(self._me, self.epoch, isr, self.isr_version)
        self.maximal_isr = frozenset(self.isr).union(isr)
        return self._proposed

    def _lags(self, remote: RemoteReplica, now_ms: int) -> bool:
        return remote.lags(self.end_offset, now_ms=now_ms, max_lag_ms=self._max_lag_ms)
