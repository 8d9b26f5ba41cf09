"""Proposals become conditional writes; what became of a write is found out, never guessed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from highwater.broker import isr_keeper
from highwater.broker.isr_keeper import IsrKeeper
from highwater.broker.partitions import Partitions
from highwater.coordination import paths, records
from highwater.coordination.embedded import EmbeddedCoordination
from highwater.coordination.port import Disconnected, ensure
from highwater.coordination.records import PartitionStateRecord
from highwater.model.ids import BrokerId, LeaderEpoch, TopicPartition
from highwater.replication.leader import IsrProposal

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
NAME = TopicPartition("orders", 0)
PATH = paths.partition_state(*NAME)
GROWTH = IsrProposal(ONE, LeaderEpoch(5), (ONE, TWO), expected_version=0)


class Leader:
    """A partition that only remembers what it is told."""

    name = NAME
    leads = True
    leader_epoch = LeaderEpoch(5)
    in_sync_replicas = (ONE,)

    def __init__(self) -> None:
        self.outcome: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def isr_committed(self, proposal: IsrProposal, isr: tuple[BrokerId, ...], version: int) -> None:
        assert proposal == GROWTH
        self.outcome.set_result((isr, version))

    def isr_overtaken(self, proposal: IsrProposal) -> None:
        assert proposal == GROWTH
        self.outcome.set_result("overtaken")

    def shrink_isr(self) -> None:
        """Nobody lags."""


class DeafStore:
    """A store whose next write happens, and is not heard of."""

    def __init__(self, store: EmbeddedCoordination) -> None:
        self._store = store
        self._is_deaf = True

    async def write(self, path: str, data: bytes, *, version: int) -> int:
        written = await self._store.write(path, data, version=version)
        if self._is_deaf:
            self._is_deaf = False
            raise Disconnected(path)
        return written

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@asynccontextmanager
async def a_keeper(folder: Path, *, deaf: bool = False) -> AsyncIterator[tuple[IsrKeeper, EmbeddedCoordination]]:
    loop = asyncio.get_running_loop()
    store = EmbeddedCoordination.open(folder / "store")
    for path in (paths.partition(*NAME), paths.ISR_CHANGES):
        await ensure(store, path)
    await store.create(PATH, PartitionStateRecord(ONE, 5, (ONE,), 1).encode())
    keeper = IsrKeeper(
        loop,
        ONE,
        cast("EmbeddedCoordination", DeafStore(store)) if deaf else store,
        cluster=cast("Any", SimpleNamespace(controller_epoch=1)),
        partitions=Partitions(),
        max_lag_ms=10_000,
    )
    keeper.start()
    try:
        yield keeper, store
    finally:
        keeper.stop()
        await store.close()


async def outcome(keeper: IsrKeeper) -> object:
    leader = Leader()
    keeper.propose(cast("Any", leader), GROWTH)
    return await leader.outcome


async def test_a_proposal_is_written_under_its_version(tmp_path: Path) -> None:
    async with a_keeper(tmp_path) as (keeper, store):
        assert await outcome(keeper) == ((ONE, TWO), 1)
        assert (keeper.shrinks, keeper.expansions) == (0, 1)
        assert PartitionStateRecord.decode(PATH, (await store.read(PATH)).data).isr == (ONE, TWO)


async def test_a_newer_epoch_overtakes_it(tmp_path: Path) -> None:
    async with a_keeper(tmp_path) as (keeper, store):
        await store.write(PATH, PartitionStateRecord(TWO, 6, (TWO, THREE), 1).encode())
        assert await outcome(keeper) == "overtaken"
        assert PartitionStateRecord.decode(PATH, (await store.read(PATH)).data).leader == TWO


async def test_a_deleted_partition_overtakes_it(tmp_path: Path) -> None:
    async with a_keeper(tmp_path) as (keeper, store):
        await store.delete(PATH)
        assert await outcome(keeper) == "overtaken"


async def test_a_write_that_was_not_heard_of_is_looked_up(tmp_path: Path) -> None:
    """The connection broke after the store had written: trying again finds our own write, and takes it as agreed."""
    async with a_keeper(tmp_path, deaf=True) as (keeper, _):
        assert await outcome(keeper) == ((ONE, TWO), 1)


async def test_the_controller_is_told_once_changes_have_calmed_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(isr_keeper, "QUIET_BEFORE_NOTICE_MS", 10)
    async with a_keeper(tmp_path) as (keeper, store):
        told = asyncio.Event()
        store.watch_children(paths.ISR_CHANGES, told.set)
        await outcome(keeper)
        await told.wait()
        path = f"{paths.ISR_CHANGES}/{(await store.children(paths.ISR_CHANGES))[0]}"
        assert records.decode_isr_change(path, (await store.read(path)).data) == [NAME]
