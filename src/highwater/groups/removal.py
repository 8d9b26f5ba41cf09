"""When offsets and groups go: on request, with their topic, or because nobody needs them any more."""

from collections.abc import Iterable, Iterator

from highwater.groups.classic.group import CONSUMER_PROTOCOL, ClassicGroup
from highwater.groups.classic.states import GroupState
from highwater.groups.consumer.group import ConsumerGroup
from highwater.groups.consumer.records import group_removed, regex_forgotten
from highwater.groups.offsets import NO_EXPIRY_MS, CommittedOffset
from highwater.groups.records import GroupRecord, group_deleted, offset_deleted
from highwater.groups.shard import Group, GroupShard
from highwater.model.errors import ErrorCode

# On request ---------------------------------------------------------------------------------------------------------


def check_offset_deletion(shard: GroupShard, group_id: str) -> ErrorCode:
    """Return NONE if single offsets of a group may be deleted; whether a topic's may is `is_subscribed_to`."""
    group = shard.groups.get(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if isinstance(group, ConsumerGroup) or group.protocol_type == CONSUMER_PROTOCOL:
        return ErrorCode.NONE
    return ErrorCode.NONE if group.state is GroupState.EMPTY else ErrorCode.NON_EMPTY_GROUP


def check_group_deletion(shard: GroupShard, group_id: str) -> ErrorCode:
    """Return NONE if a whole group may be deleted: it must be there, and nobody in it."""
    group = shard.groups.get(group_id)
    if group is None:
        return ErrorCode.GROUP_ID_NOT_FOUND
    return ErrorCode.NONE if is_empty(group) else ErrorCode.NON_EMPTY_GROUP


def is_empty(group: Group) -> bool:
    """Whether nobody is in the group, and nobody is on the way in either."""
    if isinstance(group, ConsumerGroup):
        return not group.members
    return group.state is GroupState.EMPTY and not group.pending_joins


def deletion_of_group(shard: GroupShard, group_id: str) -> Iterator[GroupRecord]:
    """Return the tombstones of a group without members and of all that it has committed, or is about to."""
    for topic, partition in shard.offsets_of(group_id).known_partitions():
        yield offset_deleted(group_id, topic, partition)
    yield from tombstones(shard.groups[group_id])


def tombstones(group: Group) -> Iterator[GroupRecord]:
    """Return the tombstones of a group without members."""
    if isinstance(group, ClassicGroup):
        yield group_deleted(group.group_id)
        return
    for regex in group.regexes:
        yield regex_forgotten(group.group_id, regex)
    yield from group_removed(group.group_id)


# With their topic ---------------------------------------------------------------------------------------------------


def deletion_of_topics(shard: GroupShard, topics: Iterable[str]) -> Iterator[GroupRecord]:
    """Return the tombstones of every group's offsets in topics that are gone."""
    gone = frozenset(topics)
    for group_id, offsets in shard.offsets.items():
        if not offsets.has_pending and not gone & offsets.topics().keys():
            continue
        for topic, partition in offsets.known_partitions():
            if topic in gone:
                yield offset_deleted(group_id, topic, partition)


# With time ----------------------------------------------------------------------------------------------------------


def expired(shard: GroupShard, *, wall_ms: int) -> Iterator[GroupRecord]:
    """Return the tombstones of what nobody has needed for the retention time, groups without anything left included."""
    retention_ms = shard.settings.offsets_retention_ms
    for group_id, group in shard.groups.items():
        offsets = shard.offsets_of(group_id)
        overdue = 0
        for topic, partitions in offsets.topics().items():
            for partition, committed in partitions.items():
                ends_at_ms = _end_of_life_ms(group, topic, committed, retention_ms)
                if ends_at_ms is not None and wall_ms >= ends_at_ms and not offsets.is_pending(topic, partition):
                    overdue += 1
                    yield offset_deleted(group_id, topic, partition)
        if overdue == len(offsets) and not offsets.has_pending and is_empty(group):
            yield from tombstones(group)


def _end_of_life_ms(group: Group, topic: str, committed: CommittedOffset, retention_ms: int) -> int | None:
    """Return when an offset expires, or None while it is needed.

    Offsets of a topic that a group still reads never expire. Those of an empty classic group expire together, counted
    from when it became empty; all others each from its commit (KIP-211).
    """
    since_ms = committed.committed_at_ms
    if isinstance(group, ConsumerGroup):
        if group.is_subscribed_to(topic):
            return None
    elif group.state is GroupState.EMPTY:
        if group.protocol_type is not None and group.stored_at_ms is not None:
            since_ms = group.stored_at_ms
    elif group.state is not GroupState.STABLE or group.subscribed_topics is None or topic in group.subscribed_topics:
        return None
    return committed.expires_at_ms if committed.expires_at_ms != NO_EXPIRY_MS else since_ms + retention_ms
