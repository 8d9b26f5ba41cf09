"""A classic group as one record, and back.

The record is written when a generation is complete, when the group becomes empty and when a static member returns.
What happens between those moments is not recorded: after a fail-over, members that were in the middle of a rebalance
find their generation or their id unknown, and join again.
"""

from typing import Final

from highwater.groups.classic.group import NO_GENERATION, ClassicGroup
from highwater.groups.classic.member import ClassicMember, MemberProtocol
from highwater.groups.classic.states import GroupState
from highwater.groups.records import GroupRecord
from highwater.protocol.messages.group_metadata_records import GroupMetadataKey, GroupMetadataValue, MemberMetadata

_MEMBER_OVERHEAD_BYTES: Final = 32
_GROUP_OVERHEAD_BYTES: Final = 256


def snapshot(group: ClassicGroup, *, wall_ms: int) -> GroupRecord:
    """Return the record that `restore` makes the same group from, and note when it was taken."""
    group.stored_at_ms = wall_ms
    members = [
        MemberMetadata(
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            client_id=member.client_id,
            client_host=member.client_host,
            rebalance_timeout=member.rebalance_timeout_ms,
            session_timeout=member.session_timeout_ms,
            subscription=member.metadata_for(group.protocol),
            assignment=member.assignment,
        )
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol,
        leader=group.leader,
        current_state_timestamp=wall_ms,
        members=members,
    )
    return GroupRecord(GroupMetadataKey(group=group.group_id), value)


def snapshot_size_bytes(group: ClassicGroup) -> int:
    """Return how many bytes the snapshot takes in the log at most, give or take the batch around it."""
    per_member = (
        len(member.member_id.encode())
        + len((member.instance_id or "").encode())
        + len(member.client_id.encode())
        + len(member.client_host.encode())
        + len(member.metadata_for(group.protocol))
        + len(member.assignment)
        + _MEMBER_OVERHEAD_BYTES
        for member in group.members.values()
    )
    return _GROUP_OVERHEAD_BYTES + 4 * len(group.group_id) + sum(per_member)


def restore(group_id: str, value: GroupMetadataValue, *, now_ms: int) -> ClassicGroup:
    """Return the group; its members have a whole session from now on to be heard from."""
    group = ClassicGroup(group_id)
    group.generation = max(value.generation, NO_GENERATION)
    group.protocol = value.protocol
    group.stored_at_ms = None if value.current_state_timestamp < 0 else value.current_state_timestamp
    for each in value.members:
        member = ClassicMember(
            member_id=each.member_id,
            instance_id=each.group_instance_id,
            client_id=each.client_id,
            client_host=each.client_host,
            session_timeout_ms=each.session_timeout,
            rebalance_timeout_ms=each.session_timeout if each.rebalance_timeout < 0 else each.rebalance_timeout,
            protocols=(MemberProtocol(value.protocol or "", each.subscription),),
            assignment=each.assignment,
        )
        group.add(member, value.protocol_type)
        group.renew_session(member, now_ms)
    group.protocol_type = value.protocol_type or None
    group.leader = value.leader if value.members else None
    group.state = GroupState.STABLE if value.members else GroupState.EMPTY
    group.refresh_subscribed_topics()
    return group
