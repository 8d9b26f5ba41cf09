"""JoinGroup (key 11): become a member of a classic group, and wait for the others."""

from highwater.protocol.schema import Message, Struct, array, blob, boolean, int16, int32, string


class JoinGroupRequestProtocol(Struct):
    """A way of assigning partitions that the member supports, and what it says to the leader."""

    name: str = string()
    metadata: bytes = blob()


class JoinGroupRequest(Message, key=11, versions="0-9", flexible="6+"):
    """Who wants to join, and what it supports."""

    group_id: str = string()
    session_timeout_ms: int = int32()
    rebalance_timeout_ms: int = int32(versions="1+", default=-1)
    member_id: str = string()
    group_instance_id: str | None = string(versions="5+", nullable="0+", default=None)
    protocol_type: str = string()
    protocols: list[JoinGroupRequestProtocol] = array(JoinGroupRequestProtocol)
    reason: str | None = string(versions="8+", nullable="0+", default=None)


class JoinGroupResponseMember(Struct):
    """A member, as the leader of the group gets to know it."""

    member_id: str = string()
    group_instance_id: str | None = string(versions="5+", nullable="0+", default=None)
    metadata: bytes = blob()


class JoinGroupResponse(Message, key=11, response=True, versions="0-9", flexible="6+"):
    """The generation that the member is now part of."""

    throttle_time_ms: int = int32(versions="2+")
    error_code: int = int16()
    generation_id: int = int32(default=-1)
    protocol_type: str | None = string(versions="7+", nullable="0+", default=None)
    protocol_name: str | None = string(nullable="7+")
    leader: str = string()
    skip_assignment: bool = boolean(versions="9+")
    member_id: str = string()
    members: list[JoinGroupResponseMember] = array(JoinGroupResponseMember)
