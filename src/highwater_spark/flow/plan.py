"""A pipeline as streaming queries: checked against Spark before anything starts.

Sinks whose views treat each record alone share one query, which also collects the dead letters: their outputs belong to
the same micro-batch, and the topics are read once. Each view with a memory (windows, joins of streams, deduplication)
has a query and a state of its own.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

from highwater_spark.definition.model import KAFKA_COLUMN, Mode, Pipeline, Sink, Source, TableSink
from highwater_spark.errors import PipelineFileError, did_you_mean
from highwater_spark.flow.outputs import records_of
from highwater_spark.flow.parse import can_fail, checked, good
from highwater_spark.flow.shape import is_per_record
from highwater_spark.flow.sources import empty_stream
from highwater_spark.flow.views import build_views, spark_text

RECORDS: Final = "records"  # the query that sinks without memory share
_PERIOD_OF: Final = re.compile(r"(year|month|day|hour)\((\w+)\)")


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """One streaming query: the shared one (`view` is None), or that of one view with a memory."""

    name: str
    view: str | None
    mode: Mode
    sinks: tuple[Sink, ...]
    transforms: frozenset[str]  # those that the shared query can run


@dataclass(frozen=True, slots=True)
class Plan:
    """The queries of a pipeline, and its views over empty streams, which know their columns."""

    queries: tuple[QueryPlan, ...]
    views: Mapping[str, DataFrame]


def plan_of(spark: SparkSession, pipeline: Pipeline) -> Plan:
    """Check everything that Spark can say without reading a record, and return the queries to run."""
    views = build_views(
        pipeline, {source.name: _checked_source(spark, pipeline, source) for source in pipeline.sources}
    )
    for sink in pipeline.sinks:
        _check_sink(pipeline, sink, views[sink.view])
    per_record = frozenset(name for name, view in views.items() if is_per_record(view))
    alone = [sink for sink in pipeline.sinks if sink.view in per_record]
    plans = []
    if alone or any(can_fail(source) for source in pipeline.sources):
        plans.append(QueryPlan(RECORDS, None, Mode.APPEND, tuple(alone), per_record))
    remembering = dict.fromkeys((sink.view, sink.mode) for sink in pipeline.sinks if sink not in alone)
    for view, mode in remembering:
        sinks = tuple(sink for sink in pipeline.sinks if (sink.view, sink.mode) == (view, mode) and sink not in alone)
        _check_streaming(pipeline, sinks[0], views[view])
        plans.append(QueryPlan(f"{view}-{mode}", view, mode, sinks, frozenset()))
    return Plan(tuple(plans), views)


def _checked_source(spark: SparkSession, pipeline: Pipeline, source: Source) -> DataFrame:
    try:
        return good(checked(empty_stream(spark), source), source)
    except PySparkException as error:
        raise PipelineFileError(pipeline.at(source.line, f"source {source.name!r}: {spark_text(error)}")) from error


def _check_sink(pipeline: Pipeline, sink: Sink, view: DataFrame) -> None:
    if isinstance(sink, TableSink):
        _check_table(pipeline, sink, view)
        return
    try:
        records_of(view, sink, pipeline)
    except PySparkException as error:
        raise PipelineFileError(pipeline.at(sink.line, f"sink {sink.name!r}: {spark_text(error)}")) from error


def _check_table(pipeline: Pipeline, sink: TableSink, view: DataFrame) -> None:
    types = {field.name: field.dataType for field in view.schema if field.name != KAFKA_COLUMN}
    for part in sink.partition_by:
        period = _PERIOD_OF.fullmatch(part)
        column = period[2] if period else part
        if period and period[1] in types:
            said = f"sink {sink.name!r}: the folders of {part} are called {period[1]!r}, and so is a column of the view"
            raise PipelineFileError(pipeline.at(sink.line, said))
        if column not in types:
            said = f"sink {sink.name!r}: view {sink.view!r} has no column {column!r}{did_you_mean(column, types)}"
            raise PipelineFileError(pipeline.at(sink.line, said))
        if period and not isinstance(types[column], DateType | TimestampType | TimestampNTZType):
            said = f"sink {sink.name!r}: {part} needs a time, {column!r} is {types[column].simpleString()}"
            raise PipelineFileError(pipeline.at(sink.line, said))


def _check_streaming(pipeline: Pipeline, sink: Sink, view: DataFrame) -> None:
    """Ask Spark whether it can run a view as a stream; it would otherwise say so only at the start of the query."""
    jvm = view.sparkSession.sparkContext._jvm  # noqa: SLF001 - PySpark has no other door to this check
    assert jvm is not None, "a view belongs to a running session"
    mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, sink.mode.value.capitalize())()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    try:
        checker.checkForStreaming(view._jdf.queryExecution().analyzed(), mode)  # noqa: SLF001
    except PySparkException as error:
        raise PipelineFileError(pipeline.at(sink.line, f"sink {sink.name!r}: {spark_text(error)}")) from error
