"""Connections to the other brokers, as long as these are alive."""

import asyncio

import pytest

from highwater.broker.cluster import Cluster, LiveBroker
from highwater.broker.peer import PeerGone
from highwater.broker.peers import Peers
from highwater.coordination.records import ListenerAddress
from highwater.model.ids import BrokerId
from highwater.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse

ME, OTHER, THIRD = BrokerId(1), BrokerId(2), BrokerId(3)


async def _take_and_say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()
    writer.close()


async def test_nobody_waits_for_a_broker_that_is_gone() -> None:
    """It may have lost its power, and then it hangs up on nobody."""
    listening = await asyncio.start_server(_take_and_say_nothing, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    alive = [LiveBroker(broker, None, {"PLAINTEXT": ListenerAddress(host, port)}) for broker in (OTHER, THIRD)]
    cluster = Cluster("c", me=ME, controller_id=ME, controller_epoch=1, brokers=alive)
    peers = Peers(cluster, listener="PLAINTEXT", client_id="test", timeout_s=3600)
    try:
        first, second = (
            asyncio.create_task(
                peers.get(broker).ask(ControlledShutdownRequest(), ControlledShutdownResponse, version=3)
            )
            for broker in (OTHER, THIRD)
        )
        await asyncio.sleep(0.05)
        cluster.learn(alive[1:], now_s=0.0)
        with pytest.raises(PeerGone):
            await asyncio.wait_for(first, 5)
        assert not second.done(), "that one is still there"
        with pytest.raises(PeerGone):
            peers.get(OTHER)
    finally:
        peers.close()
        with pytest.raises(PeerGone):
            await second
        listening.close()
