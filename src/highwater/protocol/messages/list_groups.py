"""ListGroups (key 16): the groups that a broker coordinates."""

from highwater.protocol.schema import Message, Struct, array, int16, int32, string


class ListGroupsRequest(Message, key=16, versions="0-5", flexible="3+"):
    """Which groups to list; empty filters let all pass."""

    states_filter: list[str] = array(string, versions="4+")
    types_filter: list[str] = array(string, versions="5+")


class ListedGroup(Struct):
    """A group."""

    group_id: str = string()
    protocol_type: str = string()
    group_state: str = string(versions="4+")
    group_type: str = string(versions="5+")


class ListGroupsResponse(Message, key=16, response=True, versions="0-5", flexible="3+"):
    """The groups that the broker coordinates."""

    throttle_time_ms: int = int32(versions="1+")
    error_code: int = int16()
    groups: list[ListedGroup] = array(ListedGroup)
