"""What happens with a micro-batch: rows to the sinks of its query, records that cannot be used to the dead letters."""

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Final

from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from highwater_spark.definition.model import Pipeline, Source, TableSink, TopicSink
from highwater_spark.flow.delivery import Batch, TopicDelivery
from highwater_spark.flow.outputs import dead_letters_of, records_of
from highwater_spark.flow.parse import bad, checked, good
from highwater_spark.flow.plan import QueryPlan
from highwater_spark.flow.views import build_views
from highwater_spark.run.tally import Tally
from highwater_spark.table.formats import SinkTable

_SOURCE: Final = "_source"  # which source a record of the shared query comes from


def mixed_records(pipeline: Pipeline, raw: Mapping[str, DataFrame]) -> DataFrame:
    """Return the checked records of all sources in one frame, each source's columns in a struct of its own."""
    parts = [
        checked(raw[source.name], source).select(F.lit(source.name).alias(_SOURCE), F.struct("*").alias(source.name))
        for source in pipeline.sources
    ]
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), parts)


def of_source(mixed: DataFrame, source: Source) -> DataFrame:
    """Return the checked records of one source."""
    return mixed.where(F.col(_SOURCE) == source.name).select(f"{source.name}.*")


class BatchWriter:
    """The sink of one streaming query: Spark calls it with every micro-batch, one at a time."""

    def __init__(
        self,
        pipeline: Pipeline,
        plan: QueryPlan,
        delivery: TopicDelivery,
        tables: Mapping[str, SinkTable],
        tally: Tally,
    ) -> None:
        self._pipeline = pipeline
        self._plan = plan
        self._delivery = delivery
        self._tables = tables
        self._tally = tally
        self.failure: Exception | None = None

    def __call__(self, rows: DataFrame, number: int) -> None:
        """Write a micro-batch; what it raises ends the query, and `failure` keeps it from getting lost in Java."""
        query_id = rows.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
        try:
            self.write(rows, Batch(query_id, number))
        except Exception as error:
            self.failure = error
            raise

    def write(self, rows: DataFrame, batch: Batch) -> None:
        """Write the rows of a view, or for the shared query the checked records of all sources."""
        # Each sink would otherwise read the records, or change an aggregation's state, once more.
        rows.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            if self._plan.view is None:
                self._write_records(rows, batch)
            else:
                self._write_sinks({self._plan.view: rows}, [], batch)
        finally:
            rows.unpersist()

    def _write_records(self, mixed: DataFrame, batch: Batch) -> None:
        sources = self._pipeline.sources
        rows = {source.name: of_source(mixed, source) for source in sources}
        usable = {source.name: good(rows[source.name], source) for source in sources}
        views = build_views(self._pipeline, usable, self._plan.transforms)
        unusable = [dead_letters_of(bad(rows[source.name]), source, self._pipeline) for source in sources]
        self._write_sinks(views, unusable, batch)

    def _write_sinks(self, views: Mapping[str, DataFrame], unusable: Sequence[DataFrame], batch: Batch) -> None:
        topics = [sink for sink in self._plan.sinks if isinstance(sink, TopicSink)]
        records = [*(records_of(views[sink.view], sink, self._pipeline) for sink in topics), *unusable]
        if records:
            sent = self._delivery.deliver(reduce(DataFrame.unionByName, records), batch)
            for name, count in sent.items():
                self._tally.add(name, count)
        for sink in self._plan.sinks:
            if isinstance(sink, TableSink):
                self._tally.add(sink.name, self._tables[sink.name].write(views[sink.view], batch))
