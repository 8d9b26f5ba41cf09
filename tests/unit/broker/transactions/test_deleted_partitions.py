"""Only the cluster's memory knows whether a partition is gone."""

import asyncio
from pathlib import Path

import pytest

from highwater.broker.deleted_partitions import DeletedPartitions
from highwater.broker.topics import Topics
from highwater.coordination import paths
from highwater.coordination.embedded import EmbeddedCoordination
from highwater.coordination.port import CoordinationError, Node, ensure
from highwater.coordination.records import TopicRecord
from highwater.model.ids import BrokerId, TopicId, TopicPartition

NEW, GROWN, GOING, GONE = (TopicPartition(*name) for name in (("new", 0), ("new", 1), ("going", 0), ("gone", 0)))


@pytest.fixture
def store(tmp_path: Path) -> EmbeddedCoordination:
    return EmbeddedCoordination.open(tmp_path / "store")


async def looked_up(deletions: DeletedPartitions, *names: TopicPartition) -> set[TopicPartition]:
    told: set[TopicPartition] = set()
    deletions.look_for(names, told.add)
    await asyncio.gather(*deletions._looking)
    return told


async def test_what_the_store_has_is_not_deleted_however_little_this_broker_was_told(
    store: EmbeddedCoordination,
) -> None:
    record = TopicRecord(TopicId(b"t" * 16), {0: (BrokerId(1),)}).encode()
    for root in paths.ROOTS:
        await ensure(store, root)
    await store.create(paths.topic("new"), record)
    await store.create(paths.topic("going"), record)
    await store.create(paths.deleted_topic("going"), b"")
    deletions = DeletedPartitions(asyncio.get_running_loop(), Topics(), store)
    assert await looked_up(deletions, NEW, GROWN, GOING, GONE) == {GROWN, GOING, GONE}
    await store.close()


class Cut:
    """A store that cannot be reached."""

    async def read_many(self, paths: list[str]) -> list[Node | None]:
        raise CoordinationError(paths[0])


async def test_while_nobody_can_say_nothing_is_deleted() -> None:
    deletions = DeletedPartitions(asyncio.get_running_loop(), Topics(), Cut())  # type: ignore[arg-type]
    assert await looked_up(deletions, GONE) == set()
