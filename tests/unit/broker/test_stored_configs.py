"""Two brokers edit the same configs at the same time, and neither undoes what the other did."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from highwater.broker.stored_configs import change_configs
from highwater.coordination import records
from highwater.coordination.embedded import FILE_NAME, EmbeddedCoordination
from highwater.coordination.port import ANY_VERSION, Node, NoNode
from highwater.model.errors import KafkaError

PATH = "/configs"


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedCoordination:
    return EmbeddedCoordination.open(tmp_path / FILE_NAME)


class Contended:
    """A store in which another broker adds a config right after each of our first reads."""

    def __init__(self, store: EmbeddedCoordination, overtakings: int) -> None:
        self._store = store
        self._overtakings = overtakings
        self.create = store.create

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        nodes = await self._store.read_many(paths)
        if self._overtakings:
            self._overtakings -= 1
            theirs = adding(f"theirs-{self._overtakings}")
            await change_configs(self._store, PATH, theirs, may_create=True)
        return nodes

    async def write(self, path: str, data: bytes, *, version: int = ANY_VERSION) -> int:
        return await self._store.write(path, data, version=version)


def adding(name: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda stored: {**stored, name: "1"}


async def stored(store: EmbeddedCoordination) -> set[str]:
    return set(records.decode_configs(PATH, (await store.read(PATH)).data))


@pytest.mark.parametrize("is_there", [True, False])
async def test_nobody_undoes_what_another_did(store: EmbeddedCoordination, is_there: bool) -> None:  # noqa: FBT001
    if is_there:
        await change_configs(store, PATH, adding("before"), may_create=True)
    contended: EmbeddedCoordination = Contended(store, 2)  # type: ignore[assignment]
    changed = await change_configs(contended, PATH, adding("ours"), may_create=True)
    assert changed is not None
    assert set(changed) == await stored(store) == {"theirs-0", "theirs-1", "ours", *(["before"] if is_there else [])}


async def test_what_is_so_already_is_not_written(store: EmbeddedCoordination) -> None:
    await change_configs(store, PATH, adding("once"), may_create=True)
    assert await change_configs(store, PATH, adding("once"), may_create=True) is None
    assert (await store.read(PATH)).version == 0


async def test_what_is_gone_is_not_made_anew_unless_it_may_be(store: EmbeddedCoordination) -> None:
    with pytest.raises(NoNode):
        await change_configs(store, PATH, adding("late"), may_create=False)
    assert not await store.exists(PATH)


async def test_trying_has_an_end(store: EmbeddedCoordination) -> None:
    contended: EmbeddedCoordination = Contended(store, 1000)  # type: ignore[assignment]
    with pytest.raises(KafkaError, match="try again"):
        await change_configs(contended, PATH, adding("ours"), may_create=True)
