"""DeleteAcls (key 31): remove the access rules that match a filter."""

from highwater.protocol.schema import Message, Struct, array, int8, int16, int32, string


class DeleteAclsFilter(Struct):
    """Which rules to remove; None stands for any."""

    resource_type_filter: int = (
        int8()
    )  # 1: any, 2: topic, 3: group, 4: cluster, 5: transactional id, 6: delegation token
    resource_name_filter: str | None = string(nullable="0+")
    pattern_type_filter: int = int8(default=3)  # 1: any, 2: all that match the name, 3: literal, 4: prefixed
    principal_filter: str | None = string(nullable="0+")
    host_filter: str | None = string(nullable="0+")
    operation: int = int8()
    permission_type: int = int8()  # 2: deny, 3: allow; in filters 1: any


class DeleteAclsRequest(Message, key=31, versions="1-3", flexible="2+"):
    """The filters by which rules are removed."""

    filters: list[DeleteAclsFilter] = array(DeleteAclsFilter)


class DeleteAclsMatchingAcl(Struct):
    """A rule that was removed, or could not be."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    resource_type: int = int8()  # 2: topic, 3: group, 4: cluster, 5: transactional id, 6: delegation token
    resource_name: str = string()
    pattern_type: int = int8(default=3)  # 3: literal, 4: prefixed
    principal: str = string()
    host: str = string()
    operation: int = int8()
    permission_type: int = int8()  # 2: deny, 3: allow; in filters 1: any


class DeleteAclsFilterResult(Struct):
    """The rules that matched one filter."""

    error_code: int = int16()
    error_message: str | None = string(nullable="0+", default=None)
    matching_acls: list[DeleteAclsMatchingAcl] = array(DeleteAclsMatchingAcl)


class DeleteAclsResponse(Message, key=31, response=True, versions="1-3", flexible="2+"):
    """The rules that matched, in the order of the filters."""

    throttle_time_ms: int = int32()
    filter_results: list[DeleteAclsFilterResult] = array(DeleteAclsFilterResult)
