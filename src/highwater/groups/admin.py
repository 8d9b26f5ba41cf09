"""How groups look to administrators."""

from highwater.groups.classic.group import ClassicGroup
from highwater.groups.classic.states import GroupState
from highwater.protocol.messages.describe_groups import DescribedGroup, DescribedGroupMember
from highwater.protocol.messages.list_groups import ListedGroup

CLASSIC_TYPE = "classic"


def describe_classic(group: ClassicGroup) -> DescribedGroup:
    """Return the group and its members; what they agreed on is shown only once it stands."""
    is_stable = group.state is GroupState.STABLE
    return DescribedGroup(
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type or "",
        protocol_data=(group.protocol or "") if is_stable else "",
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata_for(group.protocol) if is_stable else b"",
                member_assignment=member.assignment if is_stable else b"",
            )
            for member in group.members.values()
        ],
    )


def listed(group: ClassicGroup) -> ListedGroup:
    """Return the group as one line of a list."""
    return ListedGroup(
        group_id=group.group_id,
        protocol_type=group.protocol_type or "",
        group_state=group.state,
        group_type=CLASSIC_TYPE,
    )
