"""What is ZooKeeper's own: losing the connection, losing the session, keeping others out."""

import asyncio
from typing import Any

import pytest

from highwater.coordination.port import Create, Disconnected, NoNode, SessionState, StoreFailed
from highwater.coordination.zookeeper import ZooKeeperCoordination
from highwater.testing.ports import free_port
from highwater.testing.zookeeper import ZooKeeperProcess


async def test_a_zookeeper_that_is_not_there_is_said_so() -> None:
    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(StoreFailed, match=address):
        await ZooKeeperCoordination.connect(address, session_timeout_ms=5000, connection_timeout_ms=200)


async def test_a_chroot_is_made_and_hides_what_is_outside(zookeeper: ZooKeeperProcess) -> None:
    inside = await ZooKeeperCoordination.connect(f"{zookeeper.address}/kafka/prod", session_timeout_ms=5000)
    outside = await ZooKeeperCoordination.connect(zookeeper.address, session_timeout_ms=5000)
    try:
        assert await inside.multi([Create("/a", b"1"), Create("/a/b_", sequence=True)]) == ["/a", "/a/b_0000000000"]
        assert (await outside.read("/kafka/prod/a")).data == b"1"
    finally:
        await inside.close()
        await outside.close()


async def test_who_reads_many_leaves_the_loop_alone(
    zookeeper: ZooKeeperProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer was handed to the loop by itself, a thousand times when a controller was elected."""
    loop = asyncio.get_running_loop()
    store = await ZooKeeperCoordination.connect(f"{zookeeper.address}/many", session_timeout_ms=5000)
    handed_over: list[object] = []
    hand_over = loop.call_soon_threadsafe

    def count(*arguments: Any, **options: Any) -> asyncio.Handle:
        handed_over.append(arguments)
        return hand_over(*arguments, **options)

    try:
        await store.multi([Create(f"/{number}") for number in range(300)])
        monkeypatch.setattr(loop, "call_soon_threadsafe", count)
        assert None not in await store.read_many([f"/{number}" for number in range(300)])
        assert len(handed_over) < 10
    finally:
        await store.close()


async def test_reading_many_fails_when_the_connection_does() -> None:
    with ZooKeeperProcess() as server:
        store = await ZooKeeperCoordination.connect(server.address, session_timeout_ms=2000)
        try:
            await store.create("/a")
            server.kill()
            with pytest.raises(Disconnected):
                await store.read_many(["/a"] * 3)
        finally:
            await store.close()


async def test_however_much_is_asked_while_it_is_away_the_loop_goes_on() -> None:
    """Two brokers stood still: each question left a byte in a socket of kazoo's, until that was full."""
    with ZooKeeperProcess() as server:
        store = await ZooKeeperCoordination.connect(server.address, session_timeout_ms=2000)
        states: asyncio.Queue[SessionState] = asyncio.Queue()
        store.on_session(states.put_nowait)
        try:
            await store.create("/a")
            server.kill()
            while await states.get() is not SessionState.SUSPENDED:
                pass
            asked = await asyncio.gather(*(store.read("/a") for _ in range(20_000)), return_exceptions=True)
            assert {type(answer) for answer in asked} == {Disconnected}
            with pytest.raises(Disconnected):
                await store.read_many(["/a"] * 1000)
            server.start()
            while await states.get() is not SessionState.CONNECTED:
                pass
            assert await store.exists("/a")
        finally:
            await store.close()


async def test_others_cannot_change_nodes_that_are_closed_to_them_nor_read_secrets(zookeeper: ZooKeeperProcess) -> None:
    address = f"{zookeeper.address}/guarded"
    ours = await ZooKeeperCoordination.connect(
        address, session_timeout_ms=5000, digest=("hw", "secret"), closes_to_others=True
    )
    theirs = await ZooKeeperCoordination.connect(address, session_timeout_ms=5000, digest=("hw", "guess"))
    try:
        await ours.create("/a", b"1")
        await ours.multi([Create("/config"), Create("/config/brokers", b"password")])
        assert (await theirs.read("/a")).data == b"1"
        with pytest.raises(StoreFailed, match="keeps /config/brokers from us"):
            await theirs.read("/config/brokers")
        with pytest.raises(StoreFailed, match="keeps /config/brokers from us"):
            await theirs.read_many(["/a", "/config/brokers"])
        for change in (theirs.write("/a", b"2"), theirs.create("/a/b"), theirs.multi([Create("/c")])):
            with pytest.raises(StoreFailed, match="from us"):
                await change
        assert await ours.write("/a", b"3") == 1
        assert (await ours.read("/config/brokers")).data == b"password"
    finally:
        await ours.close()
        await theirs.close()


async def test_credentials_alone_close_nothing(zookeeper: ZooKeeperProcess) -> None:
    ours = await ZooKeeperCoordination.connect(zookeeper.address, session_timeout_ms=5000, digest=("hw", "secret"))
    theirs = await ZooKeeperCoordination.connect(zookeeper.address, session_timeout_ms=5000)
    try:
        await ours.create("/open", b"1")
        assert await theirs.write("/open", b"2") == 1
    finally:
        await ours.close()
        await theirs.close()


async def test_a_broken_connection_keeps_the_session_and_tells_every_watcher_to_look_again() -> None:
    with ZooKeeperProcess() as server:
        store = await ZooKeeperCoordination.connect(server.address, session_timeout_ms=20_000)
        states: asyncio.Queue[SessionState] = asyncio.Queue()
        told = asyncio.Event()
        store.on_session(states.put_nowait)
        await store.create("/me", ephemeral=True)
        store.watch_node("/me", told.set)
        server.kill()
        assert await states.get() is SessionState.SUSPENDED
        server.start()
        assert await states.get() is SessionState.CONNECTED
        await told.wait()
        assert await store.exists("/me")
        told.clear()
        await store.delete("/me")
        await told.wait()
        await store.close()


async def test_an_expired_session_is_told_and_followed_by_a_new_one(zookeeper: ZooKeeperProcess) -> None:
    store = await ZooKeeperCoordination.connect(f"{zookeeper.address}/expiry", session_timeout_ms=5000)
    states: list[SessionState] = []
    again = asyncio.Event()

    def on_state(state: SessionState) -> None:
        states.append(state)
        if state is SessionState.CONNECTED:
            again.set()

    store.on_session(on_state)
    await store.create("/me", ephemeral=True)
    await _end_session_behind_its_back(store, zookeeper.address)
    await again.wait()
    assert states[-2:] == [SessionState.LOST, SessionState.CONNECTED]
    with pytest.raises(NoNode):
        await store.read("/me")
    await store.create("/me", ephemeral=True)
    await store.close()


async def _end_session_behind_its_back(store: ZooKeeperCoordination, address: str) -> None:
    """Open the same session a second time and close it: ZooKeeper ends it for both."""
    from kazoo.client import KazooClient

    twin = KazooClient(address, client_id=store._client.client_id)
    loop = asyncio.get_running_loop()
    await loop.run_in_executor(None, twin.start)
    await loop.run_in_executor(None, twin.stop)
    twin.close()
