"""Who asks, for what, and whether they may."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol


class ResourceType(IntEnum):
    """What an access rule protects. The numbers are the wire's."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class Operation(IntEnum):
    """What a caller wants to do. The numbers are the wire's."""

    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12


OPERATIONS: Final[Mapping[ResourceType, tuple[Operation, ...]]] = {
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
    ResourceType.TRANSACTIONAL_ID: (Operation.WRITE, Operation.DESCRIBE),
}
"""What can be done with each kind of resource."""

CLUSTER_NAME: Final = "kafka-cluster"
"""The name under which rules speak of the cluster itself."""


@dataclass(frozen=True, slots=True)
class Principal:
    """The identity behind a connection."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


ANONYMOUS: Final = Principal("User", "ANONYMOUS")


class Authorizer(Protocol):
    """Decides; it never waits."""

    def allows(self, principal: Principal, operation: Operation, resource: ResourceType, name: str) -> bool:
        """Return whether `principal` may do `operation` on the named resource."""


class AllowAll:
    """Every request is allowed: a broker without access rules, which is Kafka's default too."""

    def allows(self, principal: Principal, operation: Operation, resource: ResourceType, name: str) -> bool:
        """Return True, whoever asks."""
        del principal, operation, resource, name
        return True
