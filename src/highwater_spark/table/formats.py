"""Which writer a table sink has: our own Parquet files, or Delta and Iceberg by the jars that the user adds.

Delta and Iceberg keep a log of commits. Each micro-batch is one commit that carries its identity, so one that runs
again is found there and left out.
"""

from typing import Final, Protocol

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from highwater_spark.definition.model import TableSink
from highwater_spark.errors import SetupError, StateError
from highwater_spark.flow.delivery import Batch
from highwater_spark.flow.outputs import visible
from highwater_spark.table.layout import partition_columns, period_of, with_partitions
from highwater_spark.table.writer import TableWriter

_TRANSFORMS: Final = {"year": F.years, "month": F.months, "day": F.days, "hour": F.hours}


class SinkTable(Protocol):
    """The table of a sink, as a run uses it: check, prepare, then a micro-batch at a time."""

    def check(self, view: DataFrame) -> None:
        """Check that the table can be written to and that the view fits."""

    def prepare(self, *, is_first_run: bool) -> None:
        """Check that the table does not already hold what a lost checkpoint has written."""

    def write(self, view: DataFrame, batch: Batch) -> int:
        """Write a micro-batch unless it is there already; return its number of rows."""

    def clear(self) -> None:
        """Empty the table, for a full refresh."""


def table_of(spark: SparkSession, sink: TableSink, writer: str) -> SinkTable:
    """Return the table of a sink; `writer` names who writes, over all its runs."""
    match sink.format:
        case "delta":
            return DeltaTable(spark, sink, writer)
        case "iceberg":
            return IcebergTable(spark, sink, writer)
        case _:
            return TableWriter(sink, writer)


class DeltaTable:
    """A Delta table at a path."""

    def __init__(self, spark: SparkSession, sink: TableSink, writer: str) -> None:
        self._spark = spark
        self._sink = sink
        self._writer = writer
        self._name = f"delta.`{sink.path}`"

    def check(self, view: DataFrame) -> None:  # noqa: ARG002 - Delta itself compares the columns
        """Check that Delta is there."""
        _require(self._spark, "io.delta.sql.DeltaSparkSessionExtension", self._sink)

    def prepare(self, *, is_first_run: bool) -> None:
        """Refuse a table that holds our output from before the checkpoint was removed."""
        if is_first_run and self._exists():
            ours = self._spark.sql(f"DESCRIBE HISTORY {self._name}").where(F.col("userMetadata") == self._writer)
            if ours.limit(1).count():
                raise _checkpoint_gone(self._sink, self._writer)

    def write(self, view: DataFrame, batch: Batch) -> int:
        """Append by a transaction whose id and version Delta remembers."""
        rows = with_partitions(view.select(*visible(view)), self._sink.partition_by)
        identity = {"txnAppId": f"{self._writer}:{batch.query_id}", "txnVersion": str(batch.number)}
        writing = rows.write.format("delta").mode("append").option("mergeSchema", "true")
        writing = writing.options(**identity, userMetadata=self._writer).options(**self._sink.options)
        writing.partitionBy(*partition_columns(self._sink.partition_by)).save(self._sink.path)
        return rows.count()

    def clear(self) -> None:
        """Delete all rows."""
        if self._exists():
            self._spark.sql(f"DELETE FROM {self._name}")  # noqa: S608 - the user's own table

    def _exists(self) -> bool:
        jvm = self._spark.sparkContext._jvm  # noqa: SLF001 - Delta's Python package is not needed for this alone
        assert jvm is not None, "a running session has a JVM"
        return bool(jvm.io.delta.tables.DeltaTable.isDeltaTable(self._spark._jsparkSession, self._sink.path))  # noqa: SLF001


class IcebergTable:
    """An Iceberg table by its name in a catalog."""

    def __init__(self, spark: SparkSession, sink: TableSink, writer: str) -> None:
        self._spark = spark
        self._sink = sink
        self._writer = writer

    def check(self, view: DataFrame) -> None:
        """Check that Iceberg is there, and create the table if it is not."""
        _require(self._spark, "org.apache.iceberg.spark.source.IcebergSource", self._sink)
        if self._spark.catalog.tableExists(self._sink.path):
            return
        fields = [field for field in view.schema if field.name != "kafka"]
        empty = self._spark.createDataFrame([], type(view.schema)(fields))
        creating = empty.writeTo(self._sink.path).using("iceberg")
        creating = creating.tableProperty("write.spark.accept-any-schema", "true")
        if parts := [_iceberg_partition(part) for part in self._sink.partition_by]:
            creating = creating.partitionedBy(*parts)
        creating.create()

    def prepare(self, *, is_first_run: bool) -> None:
        """Refuse a table that holds our output from before the checkpoint was removed."""
        if is_first_run and self._last_commit() is not None:
            raise _checkpoint_gone(self._sink, self._writer)

    def write(self, view: DataFrame, batch: Batch) -> int:
        """Append by a snapshot that carries the micro-batch's identity."""
        rows = view.select(*visible(view))
        identity = f"{batch.query_id}:{batch.number}"
        if self._last_commit() != identity:
            writing = rows.writeTo(self._sink.path).option("mergeSchema", "true").options(**self._sink.options)
            writing = writing.option("snapshot-property.highwater.writer", self._writer)
            writing.option("snapshot-property.highwater.batch", identity).append()
        return rows.count()

    def clear(self) -> None:
        """Delete all rows."""
        if self._spark.catalog.tableExists(self._sink.path):
            self._spark.sql(f"DELETE FROM {self._sink.path}")  # noqa: S608 - the user's own table

    def _last_commit(self) -> str | None:
        """Return the identity of the last micro-batch that we committed."""
        snapshots = self._spark.table(f"{self._sink.path}.snapshots")
        ours = snapshots.where(F.col("summary")["highwater.writer"] == self._writer)
        last = ours.orderBy(F.col("committed_at").desc()).select(F.col("summary")["highwater.batch"]).first()
        return None if last is None else str(last[0])


def _iceberg_partition(part: str) -> Column:
    period = period_of(part)
    return _TRANSFORMS[period[0]](period[1]) if period else F.col(part)


def _require(spark: SparkSession, name: str, sink: TableSink) -> None:
    jvm = spark.sparkContext._jvm  # noqa: SLF001 - the only way to ask what is on the class path
    assert jvm is not None, "a running session has a JVM"
    if not jvm.org.apache.spark.util.Utils.classIsLoadable(name):
        raise SetupError(
            f"sink {sink.name!r}: {sink.format} is not loaded: add its jar by --conf spark.jars.packages=..."
        )


def _checkpoint_gone(sink: TableSink, writer: str) -> StateError:
    return StateError(
        f"table {sink.path} already has output of {writer!r}, whose checkpoint is gone: --full-refresh starts both anew"
    )
