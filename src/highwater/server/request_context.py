"""What a handler may know about the request besides its fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.model.errors import ErrorCode, KafkaError
from highwater.security.authorizer import CLUSTER_NAME, OPERATIONS, Operation, Principal, ResourceType

if TYPE_CHECKING:
    from highwater.broker.broker import Broker

_REFUSALS: Final = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
}


class RequestContext:
    """Who asks, in which version, and the broker that answers."""

    __slots__ = (
        "_authorizer",
        "broker",
        "client_host",
        "client_id",
        "listener_name",
        "now_ms",
        "partitions",
        "principal",
        "recompression",
        "topics",
        "version",
    )

    def __init__(
        self,
        *,
        broker: Broker,
        principal: Principal,
        version: int,
        client_id: str,
        client_host: str,
        listener_name: str,
    ) -> None:
        self.broker = broker
        # The parts that every Produce and Fetch asks for, looked up once: a client has few contexts and many requests.
        self.partitions = broker.partitions
        self.topics = broker.topics
        self.recompression = broker.recompression
        self.now_ms = broker.now_ms
        self._authorizer = broker.authorizer
        self.principal = principal
        self.version = version
        self.client_id = client_id
        self.client_host = client_host
        self.listener_name = listener_name

    @property
    def client_address(self) -> str:
        """The caller's host as Kafka's tools show it: `/127.0.0.1`."""
        return "/" + self.client_host.rpartition(":")[0]

    def authorize(self, operation: Operation, resource: ResourceType, name: str = CLUSTER_NAME) -> bool:
        """Return whether the caller may do this: the one question that every handler asks before it acts."""
        return self._authorizer.allows(self.principal, operation, resource, name)

    def allowed_operations(self, resource: ResourceType, name: str = CLUSTER_NAME) -> int:
        """Return what the caller may do with this, as the bits that answers carry (KIP-430)."""
        return sum(1 << operation for operation in OPERATIONS[resource] if self.authorize(operation, resource, name))

    def require(self, operation: Operation, resource: ResourceType, name: str = CLUSTER_NAME) -> None:
        """Raise the refusal that fits the resource, unless the caller may do this."""
        if not self.authorize(operation, resource, name):
            raise KafkaError(f"{self.principal} may not {operation.name} {name}", code=_REFUSALS[resource])
