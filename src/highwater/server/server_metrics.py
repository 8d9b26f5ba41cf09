"""What the server counts: cells looked up once, so that a request pays an addition each."""

from highwater.metrics import declared
from highwater.metrics.registry import Registry
from highwater.server.api_table import API_TABLE


class ApiMetrics:
    """The numbers of one API."""

    __slots__ = ("errors", "latency", "requests")

    def __init__(self, registry: Registry, name: str) -> None:
        self.requests = registry.cell(declared.REQUESTS, name)
        self.errors = registry.cell(declared.REQUEST_ERRORS, name)
        self.latency = registry.histogram(declared.REQUEST_SECONDS, name)


class ServerMetrics:
    """The numbers of all connections."""

    __slots__ = ("_registry", "by_api", "received", "sent", "waiting")

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self.received = registry.cell(declared.RECEIVED_BYTES)
        self.sent = registry.cell(declared.SENT_BYTES)
        self.by_api = {api.key: ApiMetrics(registry, api.name) for api in API_TABLE}
        self.waiting = {api.key: registry.cell(declared.WAITING_REQUESTS, api.name) for api in API_TABLE}

    def accepted(self, listener_name: str) -> None:
        """Count a connection in."""
        self._registry.cell(declared.CONNECTIONS_ACCEPTED, listener_name).value += 1
        self._registry.cell(declared.CONNECTIONS, listener_name).value += 1

    def closed(self, listener_name: str) -> None:
        """Count a connection out."""
        self._registry.cell(declared.CONNECTIONS, listener_name).value -= 1

    def closed_for_cause(self, reason: str) -> None:
        """Count a connection that we closed; `reason` is one of a few words."""
        self._registry.cell(declared.CONNECTIONS_CLOSED_FOR_CAUSE, reason).value += 1
