"""Heartbeat (key 12): a member of a classic group is alive."""

from highwater.protocol.schema import Message, int16, int32, string


class HeartbeatRequest(Message, key=12, versions="0-4", flexible="4+"):
    """A member, and the generation that it believes in."""

    group_id: str = string()
    generation_id: int = int32()
    member_id: str = string()
    group_instance_id: str | None = string(versions="3+", nullable="0+", default=None)


class HeartbeatResponse(Message, key=12, response=True, versions="0-4", flexible="4+"):
    """Whether the member may go on."""

    throttle_time_ms: int = int32(versions="1+")
    error_code: int = int16()
