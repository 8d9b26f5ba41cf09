"""The classic groups in `__consumer_offsets`; see `offset_records` for how keys and values begin."""

from highwater.protocol.schema import Message, Struct, array, blob, int32, int64, string


class GroupMetadataKey(Message, key=2, versions="0"):
    """Which group."""

    group: str = string()


class MemberMetadata(Struct):
    """A member of the group."""

    member_id: str = string()
    group_instance_id: str | None = string(versions="3+", nullable="0+", default=None)
    client_id: str = string()
    client_host: str = string()
    rebalance_timeout: int = int32(versions="1+", default=-1)
    session_timeout: int = int32()
    subscription: bytes = blob()
    assignment: bytes = blob()


class GroupMetadataValue(Message, versions="0-4", flexible="4+"):
    """A generation of the group."""

    protocol_type: str = string()
    generation: int = int32()
    protocol: str | None = string(nullable="0+")
    leader: str | None = string(nullable="0+")
    current_state_timestamp: int = int64(versions="2+", default=-1)
    members: list[MemberMetadata] = array(MemberMetadata)
