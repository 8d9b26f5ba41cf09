"""DescribeGroups (key 15): the state and members of classic groups."""

from highwater.protocol.schema import Message, Struct, array, blob, boolean, int16, int32, string


class DescribeGroupsRequest(Message, key=15, versions="0-6", flexible="5+"):
    """The groups to describe."""

    groups: list[str] = array(string)
    include_authorized_operations: bool = boolean(versions="3+")


class DescribedGroupMember(Struct):
    """A member of a group."""

    member_id: str = string()
    group_instance_id: str | None = string(versions="4+", nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    member_metadata: bytes = blob()
    member_assignment: bytes = blob()


class DescribedGroup(Struct):
    """The state of one group."""

    error_code: int = int16()
    error_message: str | None = string(versions="6+", nullable="0+", default=None)
    group_id: str = string()
    group_state: str = string()
    protocol_type: str = string()
    protocol_data: str = string()
    members: list[DescribedGroupMember] = array(DescribedGroupMember)
    authorized_operations: int = int32(versions="3+", default=-(2**31))


class DescribeGroupsResponse(Message, key=15, response=True, versions="0-6", flexible="5+"):
    """The state of each group."""

    throttle_time_ms: int = int32(versions="1+")
    groups: list[DescribedGroup] = array(DescribedGroup)
