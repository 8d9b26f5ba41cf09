"""The connection between brokers, against a server that answers, hangs up or is not there."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from highwater.broker.peer import Peer, PeerGone, PeerRefused
from highwater.coordination.records import ListenerAddress
from highwater.protocol import codec
from highwater.protocol.messages.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
from highwater.testing.ports import free_port

VERSION = 3

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(serve: Serve) -> AsyncIterator[Peer]:
    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    host, port = listening.sockets[0].getsockname()
    peer = Peer(ListenerAddress(host, port), client_id="broker-1", timeout_s=10)
    try:
        yield peer
    finally:
        peer.close()
        listening.close()


async def _answer_in_reverse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer two requests, the second first, each with its own broker id as the error code."""
    answers = []
    for _ in range(2):
        frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4)))
        header, position = codec.read_request_header(memoryview(frame))
        request, _ = codec.decoder(ControlledShutdownRequest, VERSION)(memoryview(frame), position)
        body = codec.response_header(7, VERSION, header.correlation_id)
        body += codec.encode(ControlledShutdownResponse(error_code=request.broker_id), VERSION)
        answers.append(len(body).to_bytes(4) + body)
    writer.write(b"".join(reversed(answers)))
    await writer.drain()
    writer.close()


async def _hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readexactly(4)
    writer.close()


async def _ask(peer: Peer, broker_id: int) -> int:
    request = ControlledShutdownRequest(broker_id=broker_id)
    return (await peer.ask(request, ControlledShutdownResponse, version=VERSION)).error_code


async def test_each_request_gets_its_own_answer_whatever_their_order() -> None:
    async with server(_answer_in_reverse) as peer:
        assert list(await asyncio.gather(_ask(peer, 1), _ask(peer, 2))) == [1, 2]


async def test_a_peer_that_hangs_up_is_gone_and_its_owner_is_told() -> None:
    async with server(_hang_up) as peer:
        told = asyncio.Event()
        peer.on_broken = told.set
        with pytest.raises(PeerGone):
            await _ask(peer, 1)
        await told.wait()


async def test_a_port_nobody_listens_on_is_told_apart() -> None:
    """It is how we know that a process is gone and not just slow."""
    peer = Peer(ListenerAddress("127.0.0.1", free_port()), client_id="broker-1", timeout_s=10)
    with pytest.raises(PeerRefused):
        await peer.connect()


async def test_who_is_closed_does_not_wait_for_a_connection_any_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without power refuses nothing."""

    async def never(*_: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio.get_running_loop(), "create_connection", never)
    peer = Peer(ListenerAddress("127.0.0.1", 9), client_id="broker-1", timeout_s=3600)
    asking = asyncio.create_task(_ask(peer, 1))
    await asyncio.sleep(0.01)
    peer.close()
    with pytest.raises(PeerGone):
        await asyncio.wait_for(asking, 5)


async def test_a_closed_peer_stays_closed() -> None:
    async with server(_answer_in_reverse) as peer:
        await peer.connect()
        peer.close()
        with pytest.raises(PeerGone):
            await _ask(peer, 1)
