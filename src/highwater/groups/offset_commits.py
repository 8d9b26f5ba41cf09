"""Who may commit offsets, what is written when they do, and when offsets go away by themselves."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from highwater.groups.classic.group import CONSUMER_PROTOCOL, ClassicGroup
from highwater.groups.classic.states import GroupState
from highwater.groups.offsets import LATEST_TIME_MS, NO_EXPIRY_MS, CommittedOffset
from highwater.groups.records import GroupRecord, group_deleted, offset_deleted
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
    error = _check_classic(group, committer)
    if not error and committer.member_id in group.members:
        group.renew_session(group.members[committer.member_id], now_ms)
    return error


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


# Deletion -----------------------------------------------------------------------------------------------------------


def check_offset_deletion(shard: GroupShard, group_id: str) -> ErrorCode:
    """Return NONE if single offsets of a group may be deleted; whether a topic's may is `is_subscribed_to`."""
    group = shard.groups.get(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is GroupState.EMPTY or group.protocol_type == CONSUMER_PROTOCOL:
        return ErrorCode.NONE
    return ErrorCode.NON_EMPTY_GROUP


def check_group_deletion(shard: GroupShard, group_id: str) -> ErrorCode:
    """Return NONE if a whole group may be deleted: it must be there, and nobody in it."""
    group = shard.groups.get(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if group.state is GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP


def deletion_of_group(shard: GroupShard, group_id: str) -> Iterator[GroupRecord]:
    """Return the tombstones of a group and of all that it has committed."""
    for topic, partition in shard.offsets_of(group_id).partitions():
        yield offset_deleted(group_id, topic, partition)
    yield group_deleted(group_id)


def deletion_of_topics(shard: GroupShard, topics: Iterable[str]) -> Iterator[GroupRecord]:
    """Return the tombstones of every group's offsets in topics that are gone."""
    gone = frozenset(topics)
    for group_id, offsets in shard.offsets.items():
        for topic in gone & offsets.topics().keys():
            for partition in offsets.topics()[topic]:
                yield offset_deleted(group_id, topic, partition)


# Expiry -------------------------------------------------------------------------------------------------------------


def expired(shard: GroupShard, *, wall_ms: int) -> Iterator[GroupRecord]:
    """Return the tombstones of what nobody has needed for the retention time, groups without anything left included.

    Offsets of a topic that a group still reads never expire. Those of an empty group expire together, counted from when
    it became empty; those of a group that never had members, and of topics that a live group no longer reads, each from
    its commit (KIP-211).
    """
    for group_id, group in shard.groups.items():
        offsets = shard.offsets_of(group_id)
        overdue = 0
        for topic, partitions in offsets.topics().items():
            for partition, committed in partitions.items():
                if _has_expired(group, topic, committed, shard.settings.offsets_retention_ms, wall_ms):
                    if offsets.is_pending(topic, partition):
                        continue
                    overdue += 1
                    yield offset_deleted(group_id, topic, partition)
        nothing_left = overdue == len(offsets) and not offsets.has_pending
        if nothing_left and group.state is GroupState.EMPTY and not group.pending_joins:
            yield group_deleted(group_id)


def _has_expired(group: ClassicGroup, topic: str, committed: CommittedOffset, retention_ms: int, wall_ms: int) -> bool:
    if group.protocol_type is None:
        since_ms = committed.committed_at_ms
    elif group.state is GroupState.EMPTY:
        since_ms = committed.committed_at_ms if group.stored_at_ms is None else group.stored_at_ms
    elif (
        group.state is GroupState.STABLE
        and group.subscribed_topics is not None
        and topic not in group.subscribed_topics
    ):
        since_ms = committed.committed_at_ms
    else:
        return False
    if committed.expires_at_ms != NO_EXPIRY_MS:
        return wall_ms >= committed.expires_at_ms
    return wall_ms - since_ms >= retention_ms
