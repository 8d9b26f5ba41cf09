"""What every store behind the coordination port does. ZooKeeper's own rules are the reference."""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TypeAlias

import pytest

from highwater.coordination.port import (
    BadVersion,
    Check,
    Coordination,
    Create,
    Delete,
    NoChildrenOfEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionState,
    Write,
    ensure,
)

OpenSession: TypeAlias = Callable[[], AbstractAsyncContextManager[Coordination]]


async def test_a_node_holds_what_was_written_and_counts_its_versions(session: OpenSession) -> None:
    async with session() as store:
        assert await store.create("/a", b"one") == "/a"
        node = await store.read("/a")
        assert (node.data, node.version, node.is_ephemeral) == (b"one", 0, False)
        assert await store.write("/a", b"two", version=0) == 1
        assert (await store.read("/a")).data == b"two"
        assert await store.write("/a", b"three") == 2


async def test_many_are_read_in_the_order_asked(session: OpenSession) -> None:
    async with session() as store:
        await store.multi([Create(f"/n{index}", b"%d" % index) for index in range(200)])
        paths = [f"/n{index}" for index in reversed(range(250))]
        nodes = await store.read_many(paths)
        assert [node and int(node.data) for node in nodes] == [None] * 50 + list(reversed(range(200)))


async def test_a_conditional_write_loses_to_whoever_was_first(session: OpenSession) -> None:
    """This is what fences an old controller."""
    async with session() as store:
        await store.create("/epoch", b"1")
        await store.write("/epoch", b"2", version=0)
        with pytest.raises(BadVersion):
            await store.write("/epoch", b"2", version=0)
        with pytest.raises(BadVersion):
            await store.delete("/epoch", version=0)
        assert (await store.read("/epoch")).data == b"2"


async def test_only_one_creator_wins(session: OpenSession) -> None:
    async with session() as store:
        outcomes = await asyncio.gather(
            *(store.create("/controller", str(n).encode(), ephemeral=True) for n in range(5)), return_exceptions=True
        )
        assert [outcome for outcome in outcomes if not isinstance(outcome, NodeExists)] == ["/controller"]


async def test_what_is_not_there_is_said_so(session: OpenSession) -> None:
    async with session() as store:
        for attempt in (store.read("/x"), store.write("/x", b""), store.delete("/x"), store.children("/x")):
            with pytest.raises(NoNode):
                await attempt
        with pytest.raises(NoNode):
            await store.create("/x/y")
        assert not await store.exists("/x")


async def test_children_are_names_in_order(session: OpenSession) -> None:
    async with session() as store:
        for path in ("/t", "/t/b", "/t/a", "/t/a/deeper", "/tail"):
            await store.create(path)
        assert await store.children("/t") == ["a", "b"]
        assert await store.children("/t/b") == []
        assert {"t", "tail"} <= set(await store.children("/"))


async def test_a_node_with_children_stays(session: OpenSession) -> None:
    async with session() as store:
        await store.create("/t")
        await store.create("/t/a")
        with pytest.raises(NotEmpty):
            await store.delete("/t")
        await store.delete("/t/a")
        await store.delete("/t")
        assert not await store.exists("/t")


async def test_a_node_made_anew_can_be_told_from_the_old_one(session: OpenSession) -> None:
    async with session() as store:
        await store.create("/b")
        before = (await store.read("/b")).created
        await store.delete("/b")
        await store.create("/b")
        assert (await store.read("/b")).created > before


async def test_writes_and_nodes_made_are_on_one_scale(session: OpenSession) -> None:
    """So the controller knows whether a broker registered before or after its replica was called in sync."""
    async with session() as store:
        await store.create("/state")
        first = await store.read("/state")
        assert first.modified == first.created
        await store.create("/broker")
        registered = (await store.read("/broker")).created
        assert first.modified < registered
        await store.write("/state", b"1")
        assert (await store.read("/state")).modified > registered


async def test_sequence_numbers_only_grow(session: OpenSession) -> None:
    async with session() as store:
        await store.create("/changes")
        first = await store.create("/changes/change_", sequence=True)
        second = await store.create("/changes/change_", sequence=True)
        await store.delete(first)
        await store.delete(second)
        third = await store.create("/changes/change_", sequence=True)
        assert first < second < third
        assert all(len(path) == len("/changes/change_") + 10 for path in (first, second, third))


async def test_several_at_once_happen_all_or_not_at_all(session: OpenSession) -> None:
    async with session() as store:
        await store.create("/epoch", b"7")
        outcomes = await store.multi(
            [Check("/epoch", 0), Create("/t"), Create("/t/0", b"x"), Write("/t/0", b"y"), Create("/d"), Delete("/d")]
        )
        assert outcomes == [None, "/t", "/t/0", 1, "/d", None]
        with pytest.raises(BadVersion):
            await store.multi([Write("/t/0", b"z"), Delete("/t/0"), Create("/e"), Check("/epoch", 5)])
        assert (await store.read("/t/0")).data == b"y"
        assert not await store.exists("/e")


async def test_ephemeral_nodes_go_with_their_session_and_others_stay(session: OpenSession) -> None:
    async with session() as store:
        await store.create("/lasting", b"1")
        await store.create("/me", ephemeral=True)
        assert (await store.read("/me")).is_ephemeral
        with pytest.raises(NoChildrenOfEphemerals):
            await store.create("/me/child")
    async with session() as store:
        assert await store.exists("/lasting")
        assert not await store.exists("/me")


async def test_watchers_are_told_until_they_stop(session: OpenSession) -> None:
    async with session() as store:
        told: asyncio.Queue[str] = asyncio.Queue()
        stop = store.watch_node("/a", lambda: told.put_nowait("node"))
        store.watch_children("/", lambda: told.put_nowait("children"))
        await store.create("/a")
        assert {await told.get(), await told.get()} == {"node", "children"}
        await store.write("/a", b"1")
        assert await told.get() == "node"
        stop()
        stop()
        await store.delete("/a")
        assert await told.get() == "children"
        assert told.empty()


async def test_a_change_that_failed_is_not_told(session: OpenSession) -> None:
    async with session() as store:
        told: asyncio.Queue[str] = asyncio.Queue()
        await store.create("/a")
        store.watch_node("/a", lambda: told.put_nowait("a"))
        with pytest.raises(NoNode):
            await store.multi([Write("/a", b"1"), Delete("/nothing")])
        await store.write("/a", b"2")
        assert await told.get() == "a"
        assert told.empty()


async def test_those_who_care_hear_of_the_end_of_the_session(session: OpenSession) -> None:
    states: list[SessionState] = []
    async with session() as store:
        store.on_session(states.append)
    assert states[-1] is SessionState.LOST


async def test_a_path_is_made_with_all_above_it(session: OpenSession) -> None:
    async with session() as store:
        await ensure(store, "/brokers/topics")
        await ensure(store, "/brokers/ids")
        assert await store.children("/brokers") == ["ids", "topics"]


async def test_readers_do_not_see_half_of_a_change(session: OpenSession) -> None:
    async with session() as store:
        await store.create("/left", b"0")
        await store.create("/right", b"0")

        async def move(amount: int) -> None:
            await store.multi([Write("/left", b"%d" % amount), Write("/right", b"%d" % -amount)])

        async def look() -> None:
            left = await store.read("/left")
            assert left.version <= (await store.read("/right")).version

        await asyncio.gather(*(move(n) for n in range(5)), *(look() for _ in range(20)))
        assert (int((await store.read("/left")).data), (await store.read("/left")).version) == (4, 5)
