"""Reading the records of a source: as a stream, or a stretch of the past as a batch."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from highwater_spark.definition.model import Kafka, Source
from highwater_spark.flow.parse import RAW_COLUMNS
from highwater_spark.kafka.clients import spark_options

EARLIEST: Final = -2  # in Spark's JSON of offsets
LATEST: Final = -1

Offsets = Mapping[str, Mapping[int, int]]  # topic -> partition -> offset


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """A part of the topics, from inclusive to exclusive; what is not given is open, and offsets count before times."""

    from_offsets: Offsets = field(default_factory=dict)
    until_offsets: Offsets = field(default_factory=dict)
    from_time_ms: int | None = None
    until_time_ms: int | None = None


def stream_of(spark: SparkSession, kafka: Kafka, source: Source, start: Stretch | None = None) -> DataFrame:
    """Return a source as a stream; `start` counts only where there is no checkpoint yet."""
    options = _options(kafka, source) | {"startingOffsets": source.start.value}
    if source.max_per_trigger is not None:
        options["maxOffsetsPerTrigger"] = str(source.max_per_trigger)
    options |= _bounds(start or Stretch(), "starting")
    return _columns(spark.readStream.format("kafka").options(**options).load())


def batch_of(spark: SparkSession, kafka: Kafka, source: Source, stretch: Stretch) -> DataFrame:
    """Return a stretch of a source; offsets, if it has them, name every partition to read."""
    options = _options(kafka, source) | _bounds(stretch, "starting") | _bounds(stretch, "ending")
    if stretch.from_offsets:
        options = {name: value for name, value in options.items() if not name.startswith("subscribe")}
        options["assign"] = json.dumps({topic: list(found) for topic, found in stretch.from_offsets.items()})
    return _columns(spark.read.format("kafka").options(**options).load())


def empty_stream(spark: SparkSession) -> DataFrame:
    """Return a stream with the columns of records and nothing in it, to check a pipeline without a broker."""
    rate = spark.readStream.format("rate").load()
    return rate.where("false").select(*(F.lit(None).cast(kind).alias(name) for name, kind in RAW_COLUMNS.items()))


def empty_batch(spark: SparkSession) -> DataFrame:
    """Return no records."""
    return spark.createDataFrame([], ", ".join(f"{name} {kind}" for name, kind in RAW_COLUMNS.items()))


def reads(source: Source, topic: str) -> bool:
    """Return whether a topic is one of a source's."""
    return topic in source.topics if source.pattern is None else re.fullmatch(source.pattern, topic) is not None


def _options(kafka: Kafka, source: Source) -> dict[str, str]:
    options = spark_options(kafka) | {"includeHeaders": "true", "failOnDataLoss": str(source.stop_on_data_loss).lower()}
    if source.pattern is not None:
        options["subscribePattern"] = source.pattern
    else:
        options["subscribe"] = ",".join(source.topics)
    if source.min_partitions is not None:
        options["minPartitions"] = str(source.min_partitions)
    if source.max_records_per_partition is not None:
        options["maxRecordsPerPartition"] = str(source.max_records_per_partition)
    return {**options, **source.options}


def _bounds(stretch: Stretch, side: str) -> dict[str, str]:
    is_start = side == "starting"
    offsets = stretch.from_offsets if is_start else stretch.until_offsets
    time_ms = stretch.from_time_ms if is_start else stretch.until_time_ms
    if offsets:
        return {f"{side}Offsets": json.dumps(offsets)}
    if time_ms is None:
        return {}
    # No record at or after that time yet: then there is nothing to read before the next one arrives.
    latest = {"startingOffsetsByTimestampStrategy": "latest"} if is_start else {}
    return {f"{side}Timestamp": str(time_ms), **latest}


def _columns(frame: DataFrame) -> DataFrame:
    return frame.select(*RAW_COLUMNS)
