"""A record that a transform cannot take must not stop the pipeline: find it, keep it as a dead letter, leave it out.

A transform that fails ends the whole query, and Spark does not say on which record. So the micro-batch is run again
without its sinks, on halves of halves, until the records are found that fail alone. This costs time only when it
happens. Their places are noted in the checkpoint, and the query goes on without them.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any, Final

from pyspark import StorageLevel
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from highwater_spark.definition.model import Pipeline, Source, TopicSink
from highwater_spark.errors import RunFailed
from highwater_spark.flow.outputs import dead_letters_of, records_of
from highwater_spark.flow.parse import ERROR, STAGE, checked, good
from highwater_spark.flow.plan import QueryPlan
from highwater_spark.flow.sources import Stretch, batch_of
from highwater_spark.flow.views import build_views
from highwater_spark.run.failures import one_line
from highwater_spark.run.offsets import Ranges

MAX_PER_BATCH: Final = 20  # more than that is not a bad record but a bad transform
MAX_REMEMBERED: Final = 10_000
Place = tuple[str, int, int]  # topic, partition, offset


@dataclass(frozen=True, slots=True)
class Culprit:
    """A record that a transform cannot take, and why."""

    place: Place
    error: str

    def __str__(self) -> str:
        topic, partition, offset = self.place
        return f"{topic}-{partition}@{offset}: {self.error}"


def without(raw: DataFrame, places: Collection[list[Any]]) -> DataFrame:
    """Leave out the records that are in quarantine."""
    if not places:
        return raw
    offsets: dict[tuple[str, int], list[int]] = {}
    for topic, partition, offset in places:
        offsets.setdefault((topic, partition), []).append(offset)
    return raw.where(
        ~_any(_at(topic, partition) & F.col("offset").isin(found) for (topic, partition), found in offsets.items())
    )


class Search:
    """The search for the records on which a micro-batch fails."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline, plan: QueryPlan, ranges: Ranges) -> None:
        self._pipeline = pipeline
        self._plan = plan
        self._ranges = ranges
        self._raw = {source.name: self._read(spark, source, ranges) for source in pipeline.sources}
        self._read_once = tuple(self._raw.values())

    def _read(self, spark: SparkSession, source: Source, ranges: Ranges) -> DataFrame:
        since: dict[str, dict[int, int]] = {}
        until: dict[str, dict[int, int]] = {}
        for (topic, partition), (start, end) in ranges.items():
            since.setdefault(topic, {})[partition] = start
            until.setdefault(topic, {})[partition] = end
        stretch = Stretch(from_offsets=since, until_offsets=until)
        return batch_of(spark, self._pipeline.kafka, source, stretch).persist(StorageLevel.MEMORY_AND_DISK)

    def close(self) -> None:
        """Let go of the records."""
        for raw in self._read_once:
            raw.unpersist()

    def culprits(self, leave_out: Collection[list[Any]]) -> list[Culprit]:
        """Return the records that fail alone; none if the micro-batch does not fail because of a record."""
        self._raw = {name: without(raw, leave_out) for name, raw in self._raw.items()}
        first = self._failure(self._ranges)
        if first is None:
            return []
        if isinstance(first, AnalysisException):
            raise RunFailed(f"a transform cannot be run: {one_line(first)}")
        found: list[Culprit] = []
        for culprit in self._search(self._ranges, first):
            found.append(culprit)
            if len(found) > MAX_PER_BATCH:
                raise RunFailed(
                    f"more than {MAX_PER_BATCH} records of a micro-batch fail in a transform, one at {culprit.place} "
                    f"({culprit.error}): mend the transform"
                )
        return found

    def dead_letters(self, culprits: list[Culprit]) -> DataFrame:
        """Return the dead letters of the records found."""
        letters = []
        for source in self._pipeline.sources:
            for culprit in culprits:
                topic, partition, offset = culprit.place
                raw = self._raw[source.name].where(_at(topic, partition) & (F.col("offset") == offset))
                told = raw.withColumn(STAGE, F.lit("transform")).withColumn(ERROR, F.lit(culprit.error))
                letters.append(dead_letters_of(told, source, self._pipeline))
        return reduce(DataFrame.unionByName, letters)

    def _search(self, ranges: Ranges, failure: Exception) -> Iterator[Culprit]:
        """Narrow down ranges that are known to fail."""
        if sum(end - start for start, end in ranges.values()) == 1:
            [((topic, partition), (offset, _))] = ranges.items()
            yield Culprit((topic, partition, offset), one_line(failure))
            return
        for half in _halves(ranges):
            if (failed := self._failure(half)) is not None:
                yield from self._search(half, failed)

    def _failure(self, ranges: Ranges) -> Exception | None:
        """Run the query's transforms over some records, to nowhere."""
        raw = {name: frame.where(_within(ranges)) for name, frame in self._raw.items()}
        sources = {source.name: good(checked(raw[source.name], source), source) for source in self._pipeline.sources}
        only = self._plan.transforms if self._plan.view is None else None
        try:
            views = build_views(self._pipeline, sources, only)
            for sink in self._plan.sinks:
                view = views[sink.view]
                rows = records_of(view, sink, self._pipeline) if isinstance(sink, TopicSink) else view
                rows.write.format("noop").mode("overwrite").save()
        except PySparkException as error:
            return error
        return None


def _halves(ranges: Ranges) -> tuple[Ranges, Ranges]:
    """Split the records in two parts of about equal size."""
    left: Ranges = {}
    right: Ranges = {}
    room = sum(end - start for start, end in ranges.values()) // 2
    for place, (start, end) in ranges.items():
        middle = min(end, start + room)
        room -= middle - start
        if middle > start:
            left[place] = (start, middle)
        if end > middle:
            right[place] = (middle, end)
    return left, right


def _at(topic: str, partition: int) -> Column:
    return (F.col("topic") == topic) & (F.col("partition") == partition)


def _within(ranges: Ranges) -> Column:
    return _any(
        _at(topic, partition) & (F.col("offset") >= start) & (F.col("offset") < end)
        for (topic, partition), (start, end) in ranges.items()
    )


def _any(conditions: Iterator[Column]) -> Column:
    joined: Callable[[Column, Column], Column] = lambda left, right: left | right  # noqa: E731
    return reduce(joined, conditions, F.lit(False))
