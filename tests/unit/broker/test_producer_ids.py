"""Producer ids are given out once."""

from pathlib import Path

from highwater.broker.producer_ids import ProducerIds
from highwater.coordination.embedded import FILE_NAME, EmbeddedCoordination
from highwater.model.ids import BrokerId


async def test_ids_are_never_given_out_twice_not_even_after_a_restart(tmp_path: Path) -> None:
    store = EmbeddedCoordination.open(tmp_path / FILE_NAME)
    one = ProducerIds(store, BrokerId(1))
    taken = [await one.take() for _ in range(1001)]
    assert taken == list(range(1001))
    assert (await store.read("/latest_producer_id_block")).data == (
        b'{"version":1,"broker":1,"block_start":"1000","block_end":"1999"}'
    )
    await store.close()
    store = EmbeddedCoordination.open(tmp_path / FILE_NAME)
    assert await ProducerIds(store, BrokerId(1)).take() == 2000
    await store.close()


async def test_two_brokers_take_from_different_blocks(tmp_path: Path) -> None:
    store = EmbeddedCoordination.open(tmp_path / FILE_NAME)
    one, two = ProducerIds(store, BrokerId(1)), ProducerIds(store, BrokerId(2))
    taken = [await source.take() for _ in range(1500) for source in (one, two)]
    assert len(set(taken)) == 3000
    await store.close()
