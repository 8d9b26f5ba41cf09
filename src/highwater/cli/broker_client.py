"""Questions for one broker that librdkafka has no call for, over the connection that brokers use among themselves."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from highwater.broker.peer import Peer
from highwater.cli.cluster import REQUEST_TIMEOUT_SECONDS
from highwater.cli.failures import CommandFailed
from highwater.coordination.records import ListenerAddress
from highwater.model.errors import KafkaError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from highwater.cli.cluster import Cluster
    from highwater.protocol.schema import Message

ResponseT = TypeVar("ResponseT", bound="Message")


def ask_broker(
    cluster: Cluster, broker: int, request: Message, response_class: type[ResponseT], *, version: int
) -> ResponseT:
    """Return a broker's answer."""
    return ask_brokers(cluster, {broker: request}, response_class, version=version)[broker]


def ask_brokers(
    cluster: Cluster, requests: Mapping[int, Message], response_class: type[ResponseT], *, version: int
) -> dict[int, ResponseT]:
    """Return what each broker answers to its request; all are asked at once."""
    known = cluster.admin.list_topics(timeout=REQUEST_TIMEOUT_SECONDS).brokers
    missing = [broker for broker in requests if broker not in known]
    if missing:
        raise CommandFailed(f"broker {missing[0]} is not alive; try again, or start it")

    async def ask(broker: int, request: Message) -> ResponseT:
        address = ListenerAddress(str(known[broker].host), int(known[broker].port))
        peer = Peer(address, client_id="highwater-cli", timeout_s=REQUEST_TIMEOUT_SECONDS)
        try:
            return await peer.ask(request, response_class, version=version)
        finally:
            peer.close()

    async def ask_all() -> list[ResponseT]:
        return await asyncio.gather(*(ask(broker, request) for broker, request in requests.items()))

    try:
        return dict(zip(requests, asyncio.run(ask_all()), strict=True))
    except KafkaError as error:
        raise CommandFailed(str(error)) from None
