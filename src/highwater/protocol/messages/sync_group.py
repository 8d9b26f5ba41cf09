"""SyncGroup (key 14): the leader of a classic group hands out the assignment, the others fetch theirs."""

from highwater.protocol.schema import Message, Struct, array, blob, int16, int32, string


class SyncGroupRequestAssignment(Struct):
    """What the leader assigns to one member."""

    member_id: str = string()
    assignment: bytes = blob()


class SyncGroupRequest(Message, key=14, versions="0-5", flexible="4+"):
    """A member of a generation; its leader brings the assignments of all."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(versions="3+", nullable="0+", default=None)
    protocol_type: str | None = string(versions="5+", nullable="0+", default=None)
    protocol_name: str | None = string(versions="5+", nullable="0+", default=None)
    assignments: list[SyncGroupRequestAssignment] = array(SyncGroupRequestAssignment)


class SyncGroupResponse(Message, key=14, response=True, versions="0-5", flexible="4+"):
    """What the member was assigned."""

    throttle_time_ms: int = int32(versions="1+")
    error_code: int = int16()
    protocol_type: str | None = string(versions="5+", nullable="0+", default=None)
    protocol_name: str | None = string(versions="5+", nullable="0+", default=None)
    assignment: bytes = blob()
