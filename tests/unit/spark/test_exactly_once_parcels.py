"""Parcels carry every record, unchanged and in order, to the one task that owns its partition."""

import pyarrow as pa
import pytest

from highwater_spark.exactly_once import parcels
from highwater_spark.exactly_once.parcels import RouteAndPack, unpacked
from highwater_spark.exactly_once.routing import COMPLAINT, Routing

SLOTS = (7, 11, 13)
ROUTING = Routing(partitions=(("a", 4), ("b", 1)), labels=("one", "two"), partitioner="murmur2", batch=0)


def rows(first: int, count: int) -> pa.RecordBatch:
    numbers = range(first, first + count)
    return pa.RecordBatch.from_pydict(
        {
            "topic": ["b" if number % 5 == 0 else "a" for number in numbers],
            "key": pa.array([b"%d" % (number % 17) if number % 3 else None for number in numbers], pa.binary()),
            "value": pa.array([None if number == 4 else b"value %d" % number for number in numbers], pa.binary()),
            "label": ["one" if number % 2 else "two" for number in numbers],
        }
    )


@pytest.fixture(autouse=True)
def small_parcels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcels, "GATHER_BYTES", 2000)


def packed_by_slot(batches: list[pa.RecordBatch]) -> dict[int, list[pa.RecordBatch]]:
    """Return what each slot gets, as the shuffle would bring it."""
    by_slot: dict[int, list[pa.RecordBatch]] = {slot: [] for slot in SLOTS}
    for parcel in RouteAndPack(ROUTING, SLOTS)(batches):
        by_slot[parcel.column("slot")[0].as_py()].append(parcel)
    return by_slot


def test_what_is_unpacked_is_what_was_routed() -> None:
    batches = [rows(0, 300), rows(300, 0), rows(300, 200)]
    routed = pa.Table.from_batches(ROUTING(batches)).to_pylist()
    by_slot = packed_by_slot(batches)
    assert all(len(received) > 1 for received in by_slot.values()), "there are more parcels than one for each task"
    for task, slot in enumerate(SLOTS):
        expected = [row for row in routed if row["target"] % ROUTING.target_count % len(SLOTS) == task]
        assert expected
        assert pa.Table.from_batches(unpacked(by_slot[slot])).to_pylist() == expected


def test_what_cannot_be_sent_is_told_to_the_first_task() -> None:
    astray = rows(0, 4).set_column(0, "topic", pa.array(["a", "elsewhere", "a", "b"]))
    complaints = [
        (slot, row["value"])
        for slot, received in packed_by_slot([astray]).items()
        for batch in unpacked(received)
        for row in batch.to_pylist()
        if row["target"] == COMPLAINT
    ]
    assert complaints == [(SLOTS[0], b"topic elsewhere, partition any")]


def test_nothing_is_packed_where_there_is_nothing() -> None:
    assert all(not received for received in packed_by_slot([rows(0, 0)]).values())
