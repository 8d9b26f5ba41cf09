"""LeaveGroup (key 13): members leave a classic group."""

from highwater.protocol.schema import Message, Struct, array, int16, int32, string


class MemberIdentity(Struct):
    """A member that leaves."""

    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+", default=None)
    reason: str | None = string(versions="5+", nullable="0+", default=None)


class LeaveGroupRequest(Message, key=13, versions="0-5", flexible="4+"):
    """Who leaves; versions up to 2 name just one."""

    group_id: str = string()
    member_id: str = string(versions="0-2")
    members: list[MemberIdentity] = array(MemberIdentity, versions="3+")


class MemberResponse(Struct):
    """What became of one member."""

    member_id: str = string()
    group_instance_id: str | None = string(nullable="0+")
    error_code: int = int16()


class LeaveGroupResponse(Message, key=13, response=True, versions="0-5", flexible="4+"):
    """What became of each member."""

    throttle_time_ms: int = int32(versions="1+")
    error_code: int = int16()
    members: list[MemberResponse] = array(MemberResponse, versions="3+")
