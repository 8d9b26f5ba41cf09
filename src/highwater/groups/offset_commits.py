"""Who may commit and read offsets, and what is written when they do."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from highwater.groups.classic.group import ClassicGroup
from highwater.groups.classic.states import GroupState
from highwater.groups.consumer.group import ConsumerGroup
from highwater.groups.offsets import LATEST_TIME_MS, NO_EXPIRY_MS
from highwater.groups.records import GroupRecord
from highwater.groups.shard import GroupShard
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.offset_records import OffsetCommitKey, OffsetCommitValue


class Committer(NamedTuple):
    """Who commits: a member of some generation, or (with generation -1) somebody outside of any membership."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    is_transactional: bool = False
    knows_member_epochs: bool = True
    """Whether the request's version is one that members of the newer protocol may use."""

    @property
    def claims_membership(self) -> bool:
        """Whether it says that it is a member, by any of the three ways to say it."""
        return self.generation >= 0 or bool(self.member_id) or self.instance_id is not None


class OffsetToCommit(Protocol):
    """One partition of OffsetCommit or TxnOffsetCommit."""

    partition_index: int
    committed_offset: int
    committed_leader_epoch: int
    committed_metadata: str | None


def check_commit(shard: GroupShard, committer: Committer, *, now_ms: int) -> ErrorCode:
    """Return NONE if `committer` may commit now. A member that commits is alive, so its session is renewed."""
    group = shard.groups.get(committer.group_id)
    if group is None:
        # Offsets without members make a group of their own. To claim a generation of one that is not there is an
        # error; since version 9 clients know the plainer name for it.
        if committer.generation < 0:
            return ErrorCode.NONE
        return ErrorCode.GROUP_ID_NOT_FOUND if committer.knows_member_epochs else ErrorCode.ILLEGAL_GENERATION
    if isinstance(group, ConsumerGroup):
        return _check_consumer(group, committer)
    error = _check_classic(group, committer)
    if not error and committer.member_id in group.members:
        group.renew_session(group.members[committer.member_id], now_ms)
    return error


def _check_consumer(group: ConsumerGroup, committer: Committer) -> ErrorCode:
    if not group.members and committer.generation < 0:
        return ErrorCode.NONE
    if committer.is_transactional and not committer.claims_membership:
        return ErrorCode.NONE
    member = group.members.get(committer.member_id)
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    speaks_classic = member.subscription.classic is not None
    if not (speaks_classic or committer.is_transactional or committer.knows_member_epochs):
        return ErrorCode.UNSUPPORTED_VERSION
    if committer.generation != member.epoch:
        return ErrorCode.ILLEGAL_GENERATION if speaks_classic else ErrorCode.STALE_MEMBER_EPOCH
    return ErrorCode.NONE


def check_fetch(shard: GroupShard, group_id: str, member_id: str | None, member_epoch: int) -> ErrorCode:
    """Return NONE if the group's offsets may be read: by anyone, but whoever claims to be a member must be one."""
    group = shard.groups.get(group_id)
    if not isinstance(group, ConsumerGroup) or (member_id is None and member_epoch < 0):
        return ErrorCode.NONE
    member = group.members.get(member_id or "")
    if member is None:
        return ErrorCode.UNKNOWN_MEMBER_ID
    return ErrorCode.NONE if member_epoch == member.epoch else ErrorCode.STALE_MEMBER_EPOCH


def _check_classic(group: ClassicGroup, committer: Committer) -> ErrorCode:
    if committer.generation < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE  # An administrator, or a consumer that assigns its partitions itself.
    if committer.claims_membership:
        error = group.check_member(committer.member_id, committer.instance_id)
        if error:
            return error
        if committer.generation != group.generation:
            return ErrorCode.ILLEGAL_GENERATION
    elif not committer.is_transactional:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if group.state is GroupState.COMPLETING_REBALANCE and not committer.is_transactional:
        # The member has joined this generation and has no assignment in it yet, so it owns nothing to commit.
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


class CommitDecision(NamedTuple):
    """What to write, and what to say about each partition of each topic, in the order of the request."""

    records: list[GroupRecord]
    errors: list[list[ErrorCode]]


def decide_commit(
    shard: GroupShard,
    committer: Committer,
    topics: Iterable[tuple[str, Sequence[OffsetToCommit]]],
    *,
    now_ms: int,
    wall_ms: int,
    retention_ms: int = NO_EXPIRY_MS,
) -> CommitDecision:
    """Decide a commit: all or nothing as to who commits, partition by partition as to what."""
    refusal = check_commit(shard, committer, now_ms=now_ms)
    longest = shard.settings.offset_metadata_max_bytes
    decision = CommitDecision([], [])
    for topic, partitions in topics:
        errors = []
        for asked in partitions:
            error = refusal
            if not error and len(asked.committed_metadata or "") > longest:
                error = ErrorCode.OFFSET_METADATA_TOO_LARGE
            if not error:
                decision.records.append(
                    commit_record(committer.group_id, topic, asked, wall_ms=wall_ms, retention_ms=retention_ms)
                )
            errors.append(error)
        decision.errors.append(errors)
    return decision


def commit_record(
    group_id: str, topic: str, asked: OffsetToCommit, *, wall_ms: int, retention_ms: int = NO_EXPIRY_MS
) -> GroupRecord:
    """Return the record that commits one offset; `retention_ms` is what versions 2-4 of OffsetCommit may ask for."""
    return GroupRecord(
        OffsetCommitKey(group=group_id, topic=topic, partition=asked.partition_index),
        OffsetCommitValue(
            offset=asked.committed_offset,
            leader_epoch=asked.committed_leader_epoch,
            metadata=asked.committed_metadata or "",
            commit_timestamp=wall_ms,
            expire_timestamp=NO_EXPIRY_MS if retention_ms < 0 else min(wall_ms + retention_ms, LATEST_TIME_MS),
        ),
    )
