"""DeleteGroups (key 42): forget groups and their offsets."""

from highwater.protocol.schema import Message, Struct, array, int16, int32, string


class DeleteGroupsRequest(Message, key=42, versions="0-2", flexible="2+"):
    """The groups to forget."""

    groups_names: list[str] = array(string)


class DeletableGroupResult(Struct):
    """What became of one group."""

    group_id: str = string()
    error_code: int = int16()


class DeleteGroupsResponse(Message, key=42, response=True, versions="0-2", flexible="2+"):
    """What became of each group."""

    throttle_time_ms: int = int32()
    results: list[DeletableGroupResult] = array(DeletableGroupResult)
