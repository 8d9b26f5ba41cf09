"""How records travel through the shuffle: in parcels, each of which holds many records for one task.

Spark moves a row at a time from Python to the JVM and back, at a price for each. A parcel is one row, however many
records are in it; they are written as Arrow writes them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from highwater_spark.exactly_once.reuse import sparing
from highwater_spark.exactly_once.routing import COMPLAINT, Routing

PARCEL_SCHEMA: Final = "slot int, records binary"
GATHER_BYTES: Final = 1 << 20  # so much is gathered before it is worked on; the JVM prepares about as much meanwhile


@dataclass(frozen=True, slots=True)
class RouteAndPack:
    """Before the shuffle: packs the records of each output partition for the task that owns it."""

    routing: Routing
    slots: tuple[int, ...]  # for each task, the number that Spark sends there

    @sparing
    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return parcels, each with the task that it is sent to."""
        for records in gathered(self.routing(batches)):
            tasks = self._tasks(records)
            for task in np.unique(tasks):
                yield _parcel(self.slots[task], records.take(pa.array(np.flatnonzero(tasks == task))))

    def _tasks(self, records: pa.Table) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        targets = records.column("target").to_numpy().astype(np.int64)
        owned = targets % self.routing.target_count % len(self.slots)
        return np.where(targets == COMPLAINT, 0, owned)


def unpacked(parcels: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return the records of parcels."""
    for rows in parcels:
        for parcel in rows.column("records"):
            yield from pa.ipc.open_stream(parcel.as_buffer())


def gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Return records in pieces of some megabytes, each column in one chunk."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if batch.num_rows:
            held.append(batch)
            size += batch.nbytes
        if size >= GATHER_BYTES:
            yield pa.Table.from_batches(held).combine_chunks()
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held).combine_chunks()


def _parcel(slot: int, records: pa.Table) -> pa.RecordBatch:
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, records.schema) as stream:
        stream.write_table(records)
    content = written.getvalue()
    ends = pa.py_buffer(np.array([0, content.size], np.int32))
    column = pa.BinaryArray.from_buffers(pa.binary(), 1, [None, ends, content])
    return pa.RecordBatch.from_arrays([pa.array([slot], pa.int32()), column], ["slot", "records"])
