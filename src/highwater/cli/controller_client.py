"""Questions for the controller that librdkafka has no call for, over the connection that brokers use."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from highwater.broker.peer import Peer
from highwater.cli.cluster import REQUEST_TIMEOUT_SECONDS
from highwater.cli.failures import CommandFailed
from highwater.coordination.records import ListenerAddress
from highwater.model.errors import KafkaError

if TYPE_CHECKING:
    from highwater.cli.cluster import Cluster
    from highwater.protocol.schema import Message

ResponseT = TypeVar("ResponseT", bound="Message")


def ask_controller(cluster: Cluster, request: Message, response_class: type[ResponseT], *, version: int) -> ResponseT:
    """Return the controller's answer."""
    metadata = cluster.admin.list_topics(timeout=REQUEST_TIMEOUT_SECONDS)
    broker = metadata.brokers.get(metadata.controller_id)
    if broker is None:
        raise CommandFailed("the cluster has no controller right now; try again")
    address = ListenerAddress(str(broker.host), int(broker.port))

    async def ask() -> ResponseT:
        peer = Peer(address, client_id="highwater-cli", timeout_s=REQUEST_TIMEOUT_SECONDS)
        try:
            return await peer.ask(request, response_class, version=version)
        finally:
            peer.close()

    try:
        return asyncio.run(ask())
    except KafkaError as error:
        raise CommandFailed(str(error)) from None
