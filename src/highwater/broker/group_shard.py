"""One partition's groups at work: requests and timers in, records and answers out."""

from __future__ import annotations

from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, Self

from highwater.broker.journal import record_bytes
from highwater.broker.pending_answer import PendingAnswer
from highwater.groups import membership, offset_commits, records, removal
from highwater.groups.changes import Changes
from highwater.groups.classic.group import NEVER_MS, ClassicGroup
from highwater.groups.classic.join import Joiner
from highwater.groups.classic.outcome import Outcome
from highwater.groups.classic.snapshot import snapshot
from highwater.groups.classic.sync import Syncer
from highwater.groups.consumer.heartbeat import Reporter
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.log_events import EventLog
from highwater.protocol.messages.join_group import JoinGroupResponse
from highwater.protocol.messages.sync_group import SyncGroupResponse
from highwater.protocol.records.record import build_batch, numbered

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle
    from collections.abc import Callable, Iterable, Sequence
    from types import TracebackType

    from highwater.broker.group_metrics import GroupMetrics
    from highwater.broker.journal import Journal
    from highwater.groups.classic.outcome import Answer
    from highwater.groups.offset_commits import Committer, OffsetToCommit
    from highwater.groups.records import GroupRecord
    from highwater.groups.shard import GroupShard
    from highwater.model.ids import ProducerId
    from highwater.protocol.messages.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
    )
    from highwater.protocol.messages.heartbeat import HeartbeatRequest
    from highwater.protocol.messages.join_group import JoinGroupRequest
    from highwater.protocol.messages.leave_group import MemberIdentity, MemberResponse
    from highwater.protocol.messages.sync_group import SyncGroupRequest

events = EventLog("groups")

NO_TOPIC: Final = ""
NO_PARTITION: Final = -1
STALL_MS: Final = 1_000
"""A timer this late means that we were not running. What members sent meanwhile is read before they are blamed."""


class LoadedShard:
    """Drives the core of one partition, on the loop, for as long as we lead the partition."""

    __slots__ = (
        "_due",
        "_loop",
        "_metrics",
        "_new_id",
        "_stalled",
        "_timer",
        "_timer_at_ms",
        "_wake_at_ms",
        "_wall_ms",
        "core",
        "journal",
    )

    def __init__(
        self,
        core: GroupShard,
        journal: Journal,
        *,
        loop: AbstractEventLoop,
        wall_ms: Callable[[], int],
        new_id: Callable[[], str],
        metrics: GroupMetrics,
    ) -> None:
        self.core = core
        self.journal = journal
        self._loop = loop
        self._wall_ms = wall_ms
        self._new_id = new_id
        self._metrics = metrics
        self._due: list[tuple[int, str]] = []
        self._wake_at_ms: dict[str, int] = {}
        self._timer: TimerHandle | None = None
        self._timer_at_ms = NEVER_MS
        self._stalled = False

    def start(self) -> None:
        """Take over the groups that were loaded: their members have a session from now on to be heard from."""
        for group_id in list(self.core.groups):
            with _Decision(self, group_id) as decision:
                membership.take_over(self.core, group_id, decision.changes, decision.outcome)

    def stop(self, error: KafkaError) -> None:
        """Let go of the groups: whoever waits gets `error`, and looks for the new coordinator."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.journal.close(error)
        for group in self.core.groups.values():
            if isinstance(group, ClassicGroup):
                _refuse_all_who_wait(group, error)

    # Membership -----------------------------------------------------------------------------------------------------

    def join(
        self, request: JoinGroupRequest, *, version: int, client_id: str, client_host: str
    ) -> PendingAnswer[JoinGroupResponse]:
        """Take a JoinGroup, which may wait for the other members."""
        ticket = PendingAnswer(_join_refusal)
        fresh_id = "" if request.member_id else f"{request.group_instance_id or client_id}-{self._new_id()}"
        joiner = Joiner(request, version, client_id, client_host, fresh_id, ticket)
        with _Decision(self, request.group_id) as decision:
            membership.join(self.core, joiner, decision.changes, decision.outcome)
        return ticket

    def sync(self, request: SyncGroupRequest, *, version: int) -> PendingAnswer[SyncGroupResponse]:
        """Take a SyncGroup, which may wait for the leader's."""
        ticket = PendingAnswer(_sync_refusal)
        syncer = Syncer(request, version, ticket)
        with _Decision(self, request.group_id) as decision:
            membership.sync(self.core, syncer, now_ms=decision.changes.now_ms, outcome=decision.outcome)
        return ticket

    def heartbeat(self, request: HeartbeatRequest) -> ErrorCode:
        """Take a Heartbeat."""
        error = membership.heartbeat(self.core, request, now_ms=self.now_ms())
        if error is ErrorCode.REBALANCE_IN_PROGRESS:
            self._wake_for(request.group_id)  # A member that must act has a time for it; others only live longer.
        return error

    def leave(self, group_id: str, leavers: Sequence[MemberIdentity]) -> list[MemberResponse]:
        """Take a LeaveGroup."""
        with _Decision(self, group_id) as decision:
            return membership.leave(self.core, group_id, leavers, decision.changes, decision.outcome)

    def report(
        self, request: ConsumerGroupHeartbeatRequest, *, version: int, client_id: str, client_host: str
    ) -> ConsumerGroupHeartbeatResponse:
        """Take a ConsumerGroupHeartbeat; raises KafkaError if it is refused."""
        fresh_id = "" if request.member_id else self._new_id()
        reporter = Reporter(request, version, client_id, client_host, fresh_id)
        with _Decision(self, request.group_id) as decision:
            return membership.report(self.core, reporter, decision.changes, decision.outcome)

    def take(self, group_id: str, changes: Changes, outcome: Outcome) -> None:
        """Do what was decided: tell why, write it, answer when it is committed, and wake up in time."""
        if changes.causes or outcome.causes or outcome.dropped:
            self._tell_why(group_id, changes, outcome)
        if changes.records:
            self.journal.write(map(records.encode, changes.records))
        group = self.core.groups.get(group_id)
        if outcome.must_store and isinstance(group, ClassicGroup):
            self.journal.write([records.encode(snapshot(group, wall_ms=changes.wall_ms))])
        if outcome.answers:
            self.journal.when_committed(partial(_release, outcome.answers))
        self._wake_for(group_id)

    def _tell_why(self, group_id: str, changes: Changes, outcome: Outcome) -> None:
        """Log and count every rebalance by its cause."""
        for cause in (*changes.causes, *outcome.causes):
            self._metrics.rebalances(cause.kind).value += 1
            events.info("group_rebalances", group=group_id, cause=cause)
        for member_id in outcome.dropped:
            self._metrics.dropped_members.value += 1
            events.info("group_member_dropped", group=group_id, member=member_id, cause="did not rejoin in time")

    # Offsets --------------------------------------------------------------------------------------------------------

    def commit(
        self, committer: Committer, topics: Iterable[tuple[str, Sequence[OffsetToCommit]]], *, retention_ms: int
    ) -> list[list[ErrorCode]]:
        """Commit offsets; return an error for each partition of each topic, in the order given."""
        decided = offset_commits.decide_commit(
            self.core,
            committer,
            topics,
            now_ms=self.now_ms(),
            wall_ms=self._wall_ms(),
            retention_ms=retention_ms,
        )
        encoded = [records.encode(record) for record in decided.records]
        if sum(map(record_bytes, encoded)) > self.journal.max_batch_bytes:
            raise KafkaError("too much to commit at once", code=ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
        self.journal.write(encoded)
        self._apply(decided.records)
        self._metrics.committed_offsets.value += len(encoded)
        return decided.errors

    def commit_in_transaction(
        self,
        committer: Committer,
        topics: Iterable[tuple[str, Sequence[OffsetToCommit]]],
        *,
        producer_id: ProducerId,
        producer_epoch: int,
    ) -> list[list[ErrorCode]]:
        """Write offsets that count once the producer's transaction is committed; raises KafkaError for a fenced one."""
        wall_ms = self._wall_ms()
        decided = offset_commits.decide_commit(self.core, committer, topics, now_ms=self.now_ms(), wall_ms=wall_ms)
        if not decided.records:
            return decided.errors
        batch = build_batch(
            numbered(map(records.encode, decided.records), timestamp_ms=wall_ms),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            is_transactional=True,
        )
        if len(batch) > self.journal.max_batch_bytes:
            raise KafkaError("too much to commit at once", code=ErrorCode.INVALID_COMMIT_OFFSET_SIZE)
        self.journal.write_batch(batch)
        now_ms = self.now_ms()
        for record in decided.records:
            self.core.apply(record, now_ms=now_ms, producer_id=producer_id)
        return decided.errors

    def end_transaction(self, marker: bytearray, producer_id: ProducerId, *, committed: bool) -> None:
        """Write the end of a producer's transaction; its offsets count from now on, or never. Raises KafkaError."""
        self.journal.write_batch(marker)
        self.core.end_transaction(producer_id, committed=committed)

    def ask_replicas(self, group_id: str) -> None:
        """Write something that means nothing: who waits until it is committed knows that we were not replaced unawares.

        A coordinator that was would tell from memory how far a group had got, and what others have copied since in
        transactions would be copied twice. Where nothing can be written, nothing can be made sure of; alone in sync,
        nobody can have replaced us.
        """
        partition = self.journal.partition
        if len(partition.in_sync_replicas) >= max(2, partition.min_insync_replicas):
            self.journal.write([records.encode(records.offset_deleted(group_id, NO_TOPIC, NO_PARTITION))])

    def write(self, decided: Iterable[GroupRecord]) -> int:
        """Write and apply what was decided elsewhere (tombstones); return how many records that was."""
        all_of_it = tuple(decided)
        self.journal.write(map(records.encode, all_of_it))
        self._apply(all_of_it)
        return len(all_of_it)

    def expire_offsets(self) -> None:
        """Write the tombstones of what nobody needs any more."""
        count = self.write(removal.expired(self.core, wall_ms=self._wall_ms()))
        if count:
            self._metrics.expired_records.value += count
            events.info("offsets_expired", partition=self.journal.partition.name, records=count)

    def _apply(self, decided: Iterable[GroupRecord]) -> None:
        now_ms = self.now_ms()
        for record in decided:
            self.core.apply(record, now_ms=now_ms)

    # Time -----------------------------------------------------------------------------------------------------------

    def now_ms(self) -> int:
        """Return the time of the loop, which never jumps."""
        return int(self._loop.time() * 1000)

    def wall_ms(self) -> int:
        """Return the time of day."""
        return self._wall_ms()

    def _wake_for(self, group_id: str) -> None:
        group = self.core.groups.get(group_id)
        if group is None or group.wake_at_ms >= self._wake_at_ms.get(group_id, NEVER_MS):
            return
        self._wake_at_ms[group_id] = group.wake_at_ms
        heappush(self._due, (group.wake_at_ms, group_id))
        self._arm()

    def _arm(self) -> None:
        earliest_ms = self._due[0][0] if self._due else NEVER_MS
        if self._timer is not None:
            if self._timer_at_ms <= earliest_ms:
                return
            self._timer.cancel()
            self._timer = None
        if earliest_ms < NEVER_MS:
            self._timer_at_ms = earliest_ms
            self._timer = self._loop.call_at(earliest_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now_ms = self.now_ms()
        if now_ms - self._timer_at_ms > STALL_MS and not self._stalled:
            self._stalled = True
            events.warning("loop_stalled", late_ms=now_ms - self._timer_at_ms)
            self._timer_at_ms = now_ms
            self._timer = self._loop.call_later(STALL_MS / 1000, self._on_timer)
            return
        self._stalled = False
        while self._due and self._due[0][0] <= now_ms:
            deadline_ms, group_id = heappop(self._due)
            if self._wake_at_ms.get(group_id) == deadline_ms:
                del self._wake_at_ms[group_id]
                with _Decision(self, group_id) as decision:
                    membership.tick(self.core, group_id, decision.changes, decision.outcome)
        self._arm()


class _Decision:
    """What one decision writes to; at its end all of that is done, also when the caller is refused half way."""

    __slots__ = ("_group_id", "_shard", "changes", "outcome")

    def __init__(self, shard: LoadedShard, group_id: str) -> None:
        self._shard = shard
        self._group_id = group_id
        self.changes = Changes(shard.core, now_ms=shard.now_ms(), wall_ms=shard.wall_ms())
        self.outcome = Outcome()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shard.take(self._group_id, self.changes, self.outcome)


def _refuse_all_who_wait(group: ClassicGroup, error: KafkaError) -> None:
    for member in group.members.values():
        for ticket in (member.join_ticket, member.sync_ticket):
            if isinstance(ticket, PendingAnswer):
                ticket.refuse(error)


def _release(answers: list[Answer], error: KafkaError | None) -> None:
    for ticket, response in answers:
        assert isinstance(ticket, PendingAnswer)
        if error is None:
            ticket.resolve(response)
        else:
            ticket.refuse(error)


def _join_refusal(error: ErrorCode) -> JoinGroupResponse:
    return JoinGroupResponse(error_code=error)


def _sync_refusal(error: ErrorCode) -> SyncGroupResponse:
    return SyncGroupResponse(error_code=error)
