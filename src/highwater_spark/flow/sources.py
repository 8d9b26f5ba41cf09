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

EARLIEST: Final = -2  # as an offset in Spark's JSON
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
    options = _options(kafka, source)
    options |= {"startingOffsets": source.start.value, "maxOffsetsPerTrigger": str(source.max_per_trigger)}
    if start is not None:
        options |= _bound("starting", _own(start.from_offsets, source), start.from_time_ms)
    return spark.readStream.format("kafka").options(**options).load().select(*RAW_COLUMNS)


def batch_of(spark: SparkSession, kafka: Kafka, source: Source, stretch: Stretch) -> DataFrame:
    """Return a stretch of a source; offsets, if it has them, name every partition to read."""
    since, until = _own(stretch.from_offsets, source), _own(stretch.until_offsets, source)
    options = _options(kafka, source)
    options |= _bound("starting", since, stretch.from_time_ms) | _bound("ending", until, stretch.until_time_ms)
    if stretch.from_offsets or stretch.until_offsets:
        named = since or until
        if not named:
            return empty_batch(spark)
        options = {name: value for name, value in options.items() if not name.startswith("subscribe")}
        options["assign"] = json.dumps({topic: list(offsets) for topic, offsets in named.items()})
    return spark.read.format("kafka").options(**options).load().select(*RAW_COLUMNS)


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
    options = spark_options(kafka) | {
        "kafka.isolation.level": "read_committed",  # another pipeline's micro-batch is read whole or not at all
        "includeHeaders": "true",
        "failOnDataLoss": str(source.stop_on_data_loss).lower(),
    }
    if source.pattern is not None:
        options["subscribePattern"] = source.pattern
    else:
        options["subscribe"] = ",".join(source.topics)
    if source.min_partitions is not None:
        options["minPartitions"] = str(source.min_partitions)
    if source.max_records_per_partition is not None:
        options["maxRecordsPerPartition"] = str(source.max_records_per_partition)
    return options | dict(source.options)


def _own(offsets: Offsets, source: Source) -> Offsets:
    return {topic: found for topic, found in offsets.items() if reads(source, topic)}


def _bound(side: str, offsets: Offsets, time_ms: int | None) -> dict[str, str]:
    if offsets:
        return {f"{side}Offsets": json.dumps(offsets)}
    if time_ms is None:
        return {}
    # No record at or after that time yet: then there is nothing to read before the next one arrives.
    latest = {"startingOffsetsByTimestampStrategy": "latest"} if side == "starting" else {}
    return {f"{side}Timestamp": str(time_ms), **latest}
