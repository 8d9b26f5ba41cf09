"""Two brokers edit the same configs at the same time, and neither undoes what the other did."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from highwater.broker.stored_configs import change_configs
from highwater.coordination import paths, records
from highwater.coordination.embedded import FILE_NAME, EmbeddedCoordination
from highwater.coordination.port import Disconnected, Node, NoNode, Operation
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
        self.multi = store.multi

    async def read_many(self, paths: Sequence[str]) -> list[Node | None]:
        nodes = await self._store.read_many(paths)
        if self._overtakings:
            self._overtakings -= 1
            theirs = adding(f"theirs-{self._overtakings}")
            await change_configs(self._store, PATH, theirs, may_create=True, tells_others=False)
        return nodes


def adding(name: str) -> Callable[[dict[str, str]], dict[str, str]]:
    return lambda stored: {**stored, name: "1"}


async def stored(store: EmbeddedCoordination) -> set[str]:
    return set(records.decode_configs(PATH, (await store.read(PATH)).data))


@pytest.mark.parametrize("is_there", [True, False])
async def test_nobody_undoes_what_another_did(store: EmbeddedCoordination, is_there: bool) -> None:  # noqa: FBT001
    if is_there:
        await change_configs(store, PATH, adding("before"), may_create=True, tells_others=False)
    contended: EmbeddedCoordination = Contended(store, 2)  # type: ignore[assignment]
    changed = await change_configs(contended, PATH, adding("ours"), may_create=True, tells_others=False)
    assert set(changed) == await stored(store) == {"theirs-0", "theirs-1", "ours", *(["before"] if is_there else [])}


async def test_what_is_so_already_is_not_written(store: EmbeddedCoordination) -> None:
    await change_configs(store, PATH, adding("once"), may_create=True, tells_others=False)
    assert await change_configs(store, PATH, adding("once"), may_create=True, tells_others=False) == {"once": "1"}
    assert (await store.read(PATH)).version == 0


async def test_the_other_brokers_are_told_by_the_same_write(store: EmbeddedCoordination) -> None:
    """Configs that were written and not announced would never be in force elsewhere, whatever is asked for then."""
    await store.create("/config")
    await store.create(paths.CONFIG_CHANGES)
    operations: list[Sequence[Operation]] = []

    async def cut_off(wanted: Sequence[Operation]) -> None:
        operations.append(wanted)
        await EmbeddedCoordination.multi(store, wanted)
        raise Disconnected(wanted[0].path)

    store.multi = cut_off  # type: ignore[assignment,method-assign]
    path = "/config/brokers"
    with pytest.raises(Disconnected):
        await change_configs(store, path, adding("ours"), may_create=True, tells_others=True)
    assert await change_configs(store, path, adding("ours"), may_create=True, tells_others=True) == {"ours": "1"}
    assert len(operations) == 1
    (note,) = await store.children(paths.CONFIG_CHANGES)
    told = await store.read(f"{paths.CONFIG_CHANGES}/{note}")
    assert records.decode_config_change(note, told.data) == "brokers"


async def test_what_is_gone_is_not_made_anew_unless_it_may_be(store: EmbeddedCoordination) -> None:
    with pytest.raises(NoNode):
        await change_configs(store, PATH, adding("late"), may_create=False, tells_others=False)
    assert not await store.exists(PATH)


async def test_trying_has_an_end(store: EmbeddedCoordination) -> None:
    contended: EmbeddedCoordination = Contended(store, 1000)  # type: ignore[assignment]
    with pytest.raises(KafkaError, match="try again"):
        await change_configs(contended, PATH, adding("ours"), may_create=True, tells_others=False)
