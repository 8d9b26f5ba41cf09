"""DescribeAcls (key 29): the access rules that match a filter."""

from highwater.protocol.schema import Message, Struct, array, int8, int16, int32, string


class DescribeAclsRequest(Message, key=29, versions="1-3", flexible="2+"):
    """Which rules to show; None stands for any."""

    resource_type_filter: int = (
        int8()
    )  # 1: any, 2: topic, 3: group, 4: cluster, 5: transactional id, 6: delegation token
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8(default=3)  # 1: any, 2: all that match the name, 3: literal, 4: prefixed
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()  # 2: deny, 3: allow; in filters 1: any


class AclDescription(Struct):
    """Who may or may not do what from where."""

    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()  # 2: deny, 3: allow; in filters 1: any


class DescribeAclsResource(Struct):
    """The rules for one resource."""

    resource_type: int = int8()  # 2: topic, 3: group, 4: cluster, 5: transactional id, 6: delegation token
    resource_name: str = string()
    pattern_type: int = int8(default=3)  # 3: literal, 4: prefixed
    acls: list[AclDescription] = array(AclDescription)


class DescribeAclsResponse(Message, key=29, response=True, versions="1-3", flexible="2+"):
    """The rules that match."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    resources: list[DescribeAclsResource] = array(DescribeAclsResource)
