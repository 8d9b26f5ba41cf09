"""Which operations a caller may do on a resource, as the set of bits that clients ask for (KIP-430)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.security.authorizer import CLUSTER_NAME, Operation, ResourceType

if TYPE_CHECKING:
    from highwater.server.request_context import RequestContext

NOT_ASKED: Final = -(2**31)

_MEANINGFUL: Final = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}


def authorized_operations(
    context: RequestContext, resource: ResourceType, name: str = CLUSTER_NAME, *, asked: bool
) -> int:
    """Return one bit for each operation that the caller may do; NOT_ASKED if the caller did not `ask`."""
    if not asked:
        return NOT_ASKED
    return sum(1 << operation for operation in _MEANINGFUL[resource] if context.authorize(operation, resource, name))
