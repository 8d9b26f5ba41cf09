"""A run of a pipeline, from its first check to its last micro-batch.

The runner waits for brokers that are away, sets aside records that a transform cannot take, tries again what may be bad
luck, and stops with one line that says why when none of this helps. Nothing is lost in any of these cases: a query goes
on from its checkpoint.
"""

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from highwater_spark.definition.model import Pipeline
from highwater_spark.errors import BrokerAway, RunFailed
from highwater_spark.flow.delivery import Batch, TopicDelivery, delivery_of
from highwater_spark.flow.outputs import DEAD_LETTERS
from highwater_spark.flow.plan import RECORDS, QueryPlan, plan_of
from highwater_spark.flow.sources import Stretch
from highwater_spark.kafka.cluster import Cluster
from highwater_spark.run.batches import BatchWriter
from highwater_spark.run.failures import Failure, Kind, failure_of
from highwater_spark.run.offsets import end_offsets, planned_batch
from highwater_spark.run.progress import Display, Silent, Snapshot
from highwater_spark.run.quarantine import MAX_REMEMBERED, Search
from highwater_spark.run.queries import RunningQuery, stream_of_query
from highwater_spark.run.state import Folder, StateStore
from highwater_spark.run.tally import Tally
from highwater_spark.table.formats import SinkTable, table_of

LOOK_SECONDS: Final = 0.25
QUIET_SECONDS: Final = 10.0  # without news from a query for so long, ask whether a broker is there
MAX_RESTARTS: Final = 3  # of one query without a micro-batch in between


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """How to run a pipeline."""

    once: bool = False  # all that is there now, then stop
    full_refresh: bool = False  # forget the checkpoint and the tables first
    start: Stretch | None = None  # where to begin when there is no checkpoint
    place: str | None = None  # another checkpoint than the pipeline's own
    patience_seconds: float = 600.0  # how long to wait for a broker that is away
    stop: threading.Event = field(default_factory=threading.Event)


class Runner:
    """One run."""

    def __init__(
        self, spark: SparkSession, pipeline: Pipeline, options: RunOptions | None = None, display: Display | None = None
    ) -> None:
        self._spark = spark
        self._pipeline = pipeline
        self._options = options or RunOptions()
        self._display: Display = display or Silent()
        self._cluster = Cluster(pipeline.kafka)
        self._tally = Tally()
        self._queries: list[RunningQuery] = []
        self._waiting: str | None = None
        self._started = time.monotonic()
        self._next_probe = 0.0

    def run(self) -> Snapshot:
        """Run until it is stopped, or for `once` until all that was there is done; return how it stood at the end."""
        plan = plan_of(self._spark, self._pipeline)
        self._wait_for_broker()
        outputs = self._cluster.prepare(self._pipeline)
        self._store = StateStore(self._spark, self._pipeline, self._options.place)
        tables = {
            sink.name: table_of(self._spark, sink, self._writer_name(sink.name)) for sink in self._pipeline.table_sinks
        }
        for sink in self._pipeline.table_sinks:
            tables[sink.name].check(plan.views[sink.view])
        if self._options.full_refresh:
            self._store.forget()
            for table in tables.values():
                table.clear()
        self._store.check_outputs(outputs)
        try:
            for query in plan.queries:
                self._start_first(query, tables)
            self._supervise()
        finally:
            for running in self._queries:
                running.stop()
        return self._snapshot()

    def _writer_name(self, sink: str) -> str:
        return f"{self._pipeline.name}.{sink}"

    def _sink_id(self, plan: QueryPlan) -> str:
        """Return the name under which a query writes to topics, and the group that shows how far it has read."""
        return self._pipeline.name if plan.name == RECORDS else f"{self._pipeline.name}.{plan.name}"

    def _delivery(self, plan: QueryPlan) -> TopicDelivery:
        folder = self._query_folder(plan)
        return delivery_of(
            self._pipeline,
            plan.sinks,
            self._sink_id(plan),
            source_offsets=lambda batch: end_offsets(folder, batch),
            take_over=self._options.full_refresh,
            untried_from=planned_batch(folder)[0] + 1,
        )

    def _query_folder(self, plan: QueryPlan) -> Folder:
        return self._store.folder.folder(f"queries/{plan.name}")

    def _start_first(self, plan: QueryPlan, tables: Mapping[str, SinkTable]) -> None:
        query = RunningQuery(
            plan,
            BatchWriter(self._pipeline, plan, self._delivery(plan), tables, self._tally),
            self._store.query_place(plan.name),
        )
        is_first_run = not self._store.has_run(plan.name)
        for sink in plan.sinks:
            if sink.name in tables:
                tables[sink.name].prepare(is_first_run=is_first_run)
        self._start(query)
        self._queries.append(query)

    def _start(self, query: RunningQuery) -> None:
        stream = stream_of_query(
            self._spark, self._pipeline, query.plan, self._store.state.quarantine, self._options.start
        )
        query.start(stream, f"{self._pipeline.name}: {query.plan.name}", self._trigger())

    def _trigger(self) -> dict[str, Any]:
        if self._options.once:
            return {"availableNow": True}
        return {"processingTime": self._pipeline.trigger} if self._pipeline.trigger else {}

    def _supervise(self) -> None:
        while not self._options.stop.is_set():
            for query in self._queries:
                query.watch()
                if not query.is_running and (failure := query.failure()) is not None:
                    self._recover(query, failure_of(failure))
            if self._options.once and not any(query.is_running for query in self._queries):
                break
            self._look_after_broker()
            self._display.show(self._snapshot())
            self._options.stop.wait(LOOK_SECONDS)
        for query in self._queries:
            query.watch()
        self._display.show(self._snapshot())

    def _recover(self, query: RunningQuery, failure: Failure) -> None:
        """Do what lets a failed query go on, or stop the run."""
        if failure.kind is Kind.FATAL:
            raise RunFailed(f"query {query.plan.name!r}: {failure.text}")
        self._wait_for_broker()
        if failure.kind is Kind.OTHER and not self._set_aside(query):
            query.restarts += 1
            if query.restarts > MAX_RESTARTS:
                raise RunFailed(f"query {query.plan.name!r} failed {query.restarts} times: {failure.text}")
            self._display.say(f"query {query.plan.name!r} failed, trying again: {failure.text}")
        self._start(query)

    def _set_aside(self, query: RunningQuery) -> bool:
        """Make dead letters of the records on which a micro-batch fails; return whether there were any."""
        number, ranges = planned_batch(self._query_folder(query.plan))
        if not any(end > start for start, end in ranges.values()):
            return False
        state = self._store.state
        self._display.say(f"query {query.plan.name!r} failed on a record of micro-batch {number}; looking for it")
        search = Search(self._spark, self._pipeline, query.plan, ranges)
        try:
            culprits = search.culprits(state.quarantine)
            if len(state.quarantine) + len(culprits) > MAX_REMEMBERED:
                raise RunFailed(f"more than {MAX_REMEMBERED} records failed in transforms: mend them, --full-refresh")
            if culprits:
                self._bury(query.plan, search.dead_letters(culprits), number)
        finally:
            search.close()
        self._tally.add(DEAD_LETTERS, len(culprits))
        state.quarantine += [list(culprit.place) for culprit in culprits]
        self._store.save()
        for culprit in culprits:
            self._display.say(f"set aside {culprit}")
        return bool(culprits)

    def _bury(self, plan: QueryPlan, letters: DataFrame, number: int) -> None:
        """Send the dead letters of a micro-batch that failed; they go out before the micro-batch runs without them.

        A crash before they are noted in the state finds them again, the same ones, and the token says they were sent.
        """
        delivery = delivery_of(self._pipeline, (), f"{self._sink_id(plan)}.set-aside", take_over=True)
        noted = len(self._store.state.quarantine)
        delivery.deliver(letters, Batch(f"{self._store.state.run_id}/{number}", noted))

    def _wait_for_broker(self) -> None:
        self._cluster.wait_until_there(self._options.patience_seconds, self._tell_waiting, self._options.stop)
        self._waiting = None

    def _tell_waiting(self, reason: str) -> None:
        self._waiting = reason
        self._display.show(self._snapshot())

    def _look_after_broker(self) -> None:
        """When a query says nothing for long, find out whether that is because no broker answers, and show it."""
        now = time.monotonic()
        quiet = any(now - query.progress.last_news > QUIET_SECONDS for query in self._queries if query.is_running)
        if not quiet or now < self._next_probe:
            return
        self._next_probe = now + QUIET_SECONDS
        try:
            self._cluster.partitions_of_topics()
        except BrokerAway as away:
            self._waiting = str(away)
        else:
            self._waiting = None

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            self._pipeline,
            tuple(query.progress for query in self._queries),
            self._tally.totals(),
            self._waiting,
            time.monotonic() - self._started,
        )
