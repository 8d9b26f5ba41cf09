"""Which partition each record goes to.

Runs on executors, over Arrow batches. A record that cannot be sent travels on as a complaint instead, so that the
driver hears of it; an error raised here would make Spark try the task again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext

from highwater_spark.exactly_once.brokers import Target
from highwater_spark.exactly_once.partitioners import PARTITIONERS
from highwater_spark.exactly_once.varints import Numbers

Flags = np.ndarray[Any, np.dtype[np.bool_]]

COMPLAINT: Final = -1  # in the place of a target; the value says what is wrong
HEADERS_TYPE: Final = "array<struct<key: string, value: binary>>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """Where records may go: all output partitions, numbered topic by topic."""

    partitions: tuple[tuple[str, int], ...]  # each topic with its number of partitions
    labels: tuple[str, ...]  # of which column `label` tells one for each row, to be counted; none: no such column
    partitioner: str
    batch: int

    @property
    def target_count(self) -> int:
        """How many output partitions there are."""
        return sum(count for _, count in self.partitions)

    @property
    def targets(self) -> list[Target]:
        """Every output partition, in the order of its number."""
        return [Target(topic, partition) for topic, count in self.partitions for partition in range(count)]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the records as they are sent, key, value and headers, each with the number of its target."""
        context = TaskContext.get()
        # Records without a key go to one partition after the other. Where that begins depends on nothing but the task,
        # so that a task that runs again sends its records where it sent them before.
        position = self.batch + (context.partitionId() if context is not None else 0)
        for batch in batches:
            if batch.num_rows:
                yield self._routed(batch, position)
                position += batch.num_rows

    def _routed(self, batch: pa.RecordBatch, position: int) -> pa.RecordBatch:
        columns = {name: batch.column(name) for name in batch.schema.names}
        topics, problem_topic = self._topics(columns, batch.num_rows)
        counts = np.array([count for _, count in self.partitions])[topics]
        partitions = self._partitions(columns, counts, position)
        firsts = np.cumsum([0, *(count for _, count in self.partitions)])[topics]
        targets = firsts + partitions
        problem_partition = (partitions < 0) | (partitions >= counts)
        values, problems = columns["value"], problem_topic | problem_partition
        if self.labels:
            targets += self.target_count * _indexes(columns["label"], self.labels)
        if problems.any():
            targets = np.where(problems, COMPLAINT, targets)
            values = pc.if_else(pa.array(problems), _complaints(columns, self.partitions), values)
        arrays = [pa.array(targets, pa.int32()), columns["key"], values]
        names = ["target", "key", "value"]
        if "headers" in columns:
            arrays.append(columns["headers"])
            names.append("headers")
        return pa.RecordBatch.from_arrays(arrays, names)

    def _topics(self, columns: dict[str, pa.Array], rows: int) -> tuple[Numbers, Flags]:
        if "topic" not in columns:
            return np.zeros(rows, np.int64), np.zeros(rows, bool)
        found = _indexes(columns["topic"], tuple(topic for topic, _ in self.partitions))
        return np.maximum(found, 0), found < 0

    def _partitions(self, columns: dict[str, pa.Array], counts: Numbers, position: int) -> Numbers:
        """Return the partition of each row: the one given, the one of its key, or the next one in turn."""
        keys = columns["key"]
        chosen = (position + np.arange(len(keys))) % counts
        if keys.null_count < len(keys):
            has_key = pc.is_valid(keys).to_numpy(zero_copy_only=False)
            chosen = np.where(has_key, PARTITIONERS[self.partitioner](keys, counts), chosen)
        if "partition" in columns:
            given = pc.fill_null(columns["partition"], -1).to_numpy(zero_copy_only=False)
            is_given = pc.is_valid(columns["partition"]).to_numpy(zero_copy_only=False)
            chosen = np.where(is_given, np.where(given < 0, len(counts) + counts, given), chosen)
        return chosen.astype(np.int64)


def _indexes(column: pa.Array, known: tuple[str, ...]) -> Numbers:
    """Return the place of each text among the known ones, or -1."""
    found = pc.fill_null(pc.index_in(column, value_set=pa.array(known, column.type)), -1)
    places: Numbers = found.to_numpy(zero_copy_only=False).astype(np.int64)
    return places


def _complaints(columns: dict[str, pa.Array], partitions: tuple[tuple[str, int], ...]) -> pa.Array:
    """Return for each row what would be wrong with it; it counts only for those with which something is."""
    rows = len(columns["key"])
    nothing = pa.array([None] * rows, pa.string())
    topic = columns.get("topic", pa.array([partitions[0][0]] * rows))
    partition = pc.cast(columns["partition"], pa.string()) if "partition" in columns else nothing
    told = pc.binary_join_element_wise(
        "topic ",
        pc.fill_null(pc.cast(topic, pa.string()), "null"),
        ", partition ",
        pc.fill_null(partition, "any"),
        "",
        null_handling="replace",
    )
    return told.cast(pa.binary())
