"""Questions for the controller that librdkafka has no call for."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from highwater.cli.broker_client import ask_broker
from highwater.cli.cluster import REQUEST_TIMEOUT_SECONDS
from highwater.cli.failures import CommandFailed

if TYPE_CHECKING:
    from highwater.cli.cluster import Cluster
    from highwater.protocol.schema import Message

ResponseT = TypeVar("ResponseT", bound="Message")


def ask_controller(cluster: Cluster, request: Message, response_class: type[ResponseT], *, version: int) -> ResponseT:
    """Return the controller's answer."""
    metadata = cluster.admin.list_topics(timeout=REQUEST_TIMEOUT_SECONDS)
    if metadata.controller_id not in metadata.brokers:
        raise CommandFailed("the cluster has no controller right now; try again")
    return ask_broker(cluster, metadata.controller_id, request, response_class, version=version)
