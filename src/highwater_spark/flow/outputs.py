"""From rows to records: what a topic sink sends for each row of its view, and what a dead letter looks like."""

import re
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from highwater_spark.definition.model import KAFKA_COLUMN, Pipeline, Source, TopicSink
from highwater_spark.flow.headers import Header
from highwater_spark.flow.parse import ERROR, STAGE

SINK: Final = "_sink"  # which sink a record comes from, for the counts; it is not sent
DEAD_LETTERS: Final = "dead letters"
RECORD_COLUMNS: Final = (SINK, "topic", "key", "value", "headers")
_NO_HEADERS: Final = "cast(array() as array<struct<key: string, value: binary>>)"


def visible(view: DataFrame) -> list[str]:
    """Return the columns of a view that leave the pipeline: all but the record's coordinates."""
    return [f"`{name}`" for name in view.columns if name != KAFKA_COLUMN]


def records_of(view: DataFrame, sink: TopicSink, pipeline: Pipeline) -> DataFrame:
    """Return the records that a sink sends for the rows of its view."""
    value = F.expr(sink.value) if sink.value is not None else _as_json(view)
    key = F.expr(sink.key) if sink.key is not None else F.lit(None)
    records = view.select(
        F.lit(sink.name).alias(SINK),
        _topic(sink.topic).alias("topic"),
        _bytes(key).alias("key"),
        _bytes(value).alias("value"),
        F.expr(_NO_HEADERS).alias("headers"),
    )
    return _only_declared(records, sink, pipeline) if sink.is_routed else records


def dead_letters_of(records: DataFrame, source: Source, pipeline: Pipeline) -> DataFrame:
    """Return the dead letters for records that cannot be used: as they came, with what is wrong in their headers."""
    told = {
        Header.TOPIC: F.col("topic"),
        Header.PARTITION: F.col("partition"),
        Header.OFFSET: F.col("offset"),
        Header.TIMESTAMP: F.unix_millis("timestamp"),
        Header.PIPELINE: F.lit(pipeline.name),
        Header.SOURCE: F.lit(source.name),
        Header.STAGE: F.col(STAGE),
        Header.ERROR: F.col(ERROR),
    }
    kept = F.coalesce(F.col("headers"), F.expr(_NO_HEADERS))
    kept = F.filter(kept, lambda header: ~header["key"].startswith(Header.PREFIX))
    return records.select(
        F.lit(DEAD_LETTERS).alias(SINK),
        F.lit(pipeline.dead_letters).alias("topic"),
        "key",
        "value",
        F.concat(kept, _headers(told)).alias("headers"),
    )


def _as_json(view: DataFrame) -> Column:
    return F.to_json(F.struct(*visible(view)), {"ignoreNullFields": "false"})


def _bytes(value: Column) -> Column:
    """Bytes stay bytes; anything else is sent as its text."""
    return value.cast("string").cast("binary")


def _headers(values: dict[str, Column]) -> Column:
    return F.array(
        *(F.struct(F.lit(name).alias("key"), _bytes(value).alias("value")) for name, value in values.items())
    )


def _topic(template: str) -> Column:
    """Return the topic of a row: the template with each {column} replaced."""
    parts = re.split(r"\{([^{}]*)\}", template)  # texts at even places, columns at odd ones
    pieces = [F.col(part).cast("string") if number % 2 else F.lit(part) for number, part in enumerate(parts)]
    return F.concat(*(F.coalesce(piece, F.lit("")) for piece in pieces))


def _only_declared(records: DataFrame, sink: TopicSink, pipeline: Pipeline) -> DataFrame:
    """Turn the rows that name a topic the sink does not declare into dead letters: data must not create topics."""
    declared = F.col("topic").isin(*sink.topics)
    error = F.concat(F.lit(f"sink {sink.name!r} does not declare the topic "), F.col("topic"))
    told = {Header.PIPELINE: F.lit(pipeline.name), Header.STAGE: F.lit("route"), Header.ERROR: error}
    return records.select(
        F.when(declared, F.col(SINK)).otherwise(F.lit(DEAD_LETTERS)).alias(SINK),
        F.when(declared, F.col("topic")).otherwise(F.lit(pipeline.dead_letters)).alias("topic"),
        "key",
        "value",
        F.when(declared, F.col("headers")).otherwise(_headers(told)).alias("headers"),
    )
