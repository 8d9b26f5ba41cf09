"""CreateAcls (key 30): add access rules."""

from highwater.protocol.schema import Message, Struct, array, int8, int16, int32, string


class AclCreation(Struct):
    """A rule to add."""

    resource_type: int = int8()  # 2: topic, 3: group, 4: cluster, 5: transactional id, 6: delegation token
    resource_name: str = string()
    resource_pattern_type: int = int8(default=3)  # 3: literal, 4: prefixed
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()  # 2: deny, 3: allow; in filters 1: any


class CreateAclsRequest(Message, key=30, versions="1-3", flexible="2+"):
    """The rules to add."""

    creations: list[AclCreation] = array(AclCreation)


class AclCreationResult(Struct):
    """What became of one rule."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)


class CreateAclsResponse(Message, key=30, response=True, versions="1-3", flexible="2+"):
    """What became of each rule, in the order of the request."""

    throttle_time_ms: int = int32()
    results: list[AclCreationResult] = array(AclCreationResult)
