"""How far a query has read, from its checkpoint: what the sink commits to a group."""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from highwater_spark.exactly_once.sink import SourceOffsets
from highwater_spark.run.offsets import end_offsets
from highwater_spark.run.state import Folder


def checkpoint_offsets(spark: SparkSession, checkpoint: str) -> SourceOffsets:
    """Return what tells the offsets at which each micro-batch of a query ends; Spark notes them before it runs."""
    folder = Folder(spark, checkpoint)

    def offsets(batch: int) -> Mapping[tuple[str, int], int]:
        return end_offsets(folder, batch)

    return offsets
