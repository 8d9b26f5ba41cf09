"""FindCoordinator (key 10): which broker keeps a group or a transactional id."""

from highwater.protocol.schema import Message, Struct, array, int8, int16, int32, string


class FindCoordinatorRequest(Message, key=10, versions="0-6", flexible="3+"):
    """The groups or transactional ids to look for; versions up to 3 name just one."""

    key: str = string(versions="0-3")
    key_type: int = int8(versions="1+")  # 0: group, 1: transactional id
    coordinator_keys: list[str] = array(string, versions="4+")


class Coordinator(Struct):
    """The broker that keeps one of the keys."""

    key: str = string()
    node_id: int = int32()
    host: str = string()
    port: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class FindCoordinatorResponse(Message, key=10, response=True, versions="0-6", flexible="3+"):
    """The brokers that keep them."""

    throttle_time_ms: int = int32(versions="1+")
    error_code: int = int16(versions="0-3")
    error_message: str | None = string(versions="1-3", nullable="0+", default=None)
    node_id: int = int32(versions="0-3")
    host: str = string(versions="0-3")
    port: int = int32(versions="0-3")
    coordinators: list[Coordinator] = array(Coordinator, versions="4+")
