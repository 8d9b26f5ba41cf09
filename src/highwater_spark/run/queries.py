"""The streaming queries of a run: how each is built, started, watched and stopped."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, SparkSession

from highwater_spark.definition.model import Mode, Pipeline
from highwater_spark.flow.parse import checked, good
from highwater_spark.flow.plan import QueryPlan
from highwater_spark.flow.sources import Stretch, stream_of
from highwater_spark.flow.views import build_views
from highwater_spark.run.batches import BatchWriter, mixed_records
from highwater_spark.run.progress import QueryProgress
from highwater_spark.run.quarantine import without

if TYPE_CHECKING:
    from pyspark.errors import StreamingQueryException
    from pyspark.sql.streaming.query import StreamingQuery

STOP_SECONDS: Final = 20.0


class RunningQuery:
    """One streaming query, over all its restarts."""

    def __init__(self, plan: QueryPlan, writer: BatchWriter, place: str) -> None:
        self.plan = plan
        self.writer = writer
        self.place = place
        self.progress = QueryProgress(plan.name, only_final=plan.mode is Mode.APPEND)
        self.restarts = 0
        self._query: StreamingQuery | None = None

    def start(self, stream: DataFrame, name: str, trigger: Mapping[str, Any]) -> None:
        """Start it, from its checkpoint if there is one."""
        self.writer.failure = None
        writing = stream.writeStream.foreachBatch(self.writer).outputMode(self.plan.mode.value)
        writing = writing.queryName(name).option("checkpointLocation", self.place)
        self._query = (writing.trigger(**trigger) if trigger else writing).start()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._query is not None and self._query.isActive

    def watch(self) -> None:
        """Take in what Spark has reported since the last time."""
        assert self._query is not None, "it was started"
        for report in self._query.recentProgress:
            if report["batchId"] > self.progress.batch:
                self.restarts = 0
            if report["batchId"] >= self.progress.batch:
                self.progress.take(report)

    def failure(self) -> BaseException | None:
        """Return why it ended, or nothing if it came to its end."""
        assert self._query is not None, "it was started"
        ended: StreamingQueryException | None = self._query.exception()
        if ended is None:
            return None
        return self.writer.failure or ended

    def stop(self) -> None:
        """End it between two micro-batches if one is soon done, else in the middle, which is safe too."""
        if self._query is None:
            return
        deadline = time.monotonic() + STOP_SECONDS
        while self._query.isActive and self._query.status["isTriggerActive"] and time.monotonic() < deadline:
            time.sleep(0.05)
        self._query.stop()


def stream_of_query(
    spark: SparkSession, pipeline: Pipeline, plan: QueryPlan, quarantine: list[list[Any]], start: Stretch | None
) -> DataFrame:
    """Return the streaming frame of a query: the records of all sources, or a view with a memory."""
    raw = {
        source.name: without(stream_of(spark, pipeline.kafka, source, start), quarantine) for source in pipeline.sources
    }
    if plan.view is None:
        return mixed_records(pipeline, raw)
    usable = {source.name: good(checked(raw[source.name], source), source) for source in pipeline.sources}
    return build_views(pipeline, usable)[plan.view]
