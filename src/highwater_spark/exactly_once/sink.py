"""The sink: every micro-batch in one transaction, which also says which micro-batch it is."""

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, Row, SparkSession

from highwater.protocol.records.compression import Codec
from highwater_spark.errors import BrokerAway, ExactlyOnceRefused, SetupError, did_you_mean
from highwater_spark.exactly_once.brokers import Brokers, Layout, Refused, Target
from highwater_spark.exactly_once.connection import Disconnected
from highwater_spark.exactly_once.parcels import PARCEL_SCHEMA, RouteAndPack
from highwater_spark.exactly_once.partitioners import PARTITIONERS
from highwater_spark.exactly_once.patience import Patience
from highwater_spark.exactly_once.routing import HEADERS_TYPE, Routing
from highwater_spark.exactly_once.security import security_of
from highwater_spark.exactly_once.slots import numbers_for
from highwater_spark.exactly_once.tasks import (
    AWAY,
    COUNTED,
    FAILED,
    REFUSED,
    REPORT_SCHEMA,
    TASK,
    WRITTEN,
    RouteAndSend,
    SendTask,
    UnpackAndSend,
)
from highwater_spark.exactly_once.token import Token, Verdict, token_of, verdict
from highwater_spark.exactly_once.transaction import Identity, Transactions, is_lost

MAX_ATTEMPTS: Final = 5  # each under a new epoch
SMALL_BYTES: Final = 16 << 20  # one task sends so much in less time than it takes to begin and end a second stage
FEW_PARTITIONS: Final = 4  # where all comes from so few, one task may as well compute it: then there is no shuffle
ALONE_BYTES: Final = 64 << 20  # so much it computes and sends in about the time that the shuffle would take
ALONE_SECONDS: Final = 5.0  # a task that needs longer computes what more cores had better share
LISTENER_MS: Final = 10_000
QUERY_ID: Final = "sql.streaming.queryId"  # a local property that Spark sets for the thread of a streaming query

SourceOffsets = Callable[[int], Mapping[tuple[str, int], int]]


class Step(Enum):
    """The steps of a micro-batch, each told when it is done; `SENT` is told by tasks, on executors."""

    LOCATED = 1  # the partitions of all output topics, the coordinators
    FENCED = 2  # older drivers write nothing from here on
    TOKEN_READ = 3
    PARTITIONS_ADDED = 4
    SENT = 6
    CHECKED = 7
    OFFSETS_ADDED = 8
    COMMITTED = 9


@dataclass(frozen=True, slots=True)
class Delivered:
    """What became of a micro-batch."""

    records: int  # written now; 0 if they were there already
    was_there: bool
    counts: Mapping[str, int]  # rows of each label


class AttemptFailed(Exception):
    """The micro-batch was not committed and may be tried again, under a new epoch."""


class ExactlyOnceSink:
    """Writes each micro-batch of a streaming query to topics exactly once, whatever is killed.

    `df.writeStream.foreachBatch(ExactlyOnceSink("host:9092", sink_id="orders", topics=["orders"]))`

    Columns, as Spark's own Kafka sink has them: `value`, and if there, `key`, `headers`, `partition` and `topic` (not
    needed if there is one topic). `sink_id` names the job for ever: two jobs must not share one. `topics` are all that
    it may ever write to. Readers see the records with `isolation.level=read_committed`.

    `settings` are those of Kafka clients: `security.protocol`, `sasl.*`, `ssl.*`. With `group` and `source_offsets`
    (see `checkpoint_offsets`), how far the query has read is committed to that group in the same transaction.
    """

    def __init__(
        self,
        bootstrap_servers: str,
        *,
        sink_id: str,
        topics: Iterable[str],
        settings: Mapping[str, str] | None = None,
        partitioner: str = "murmur2",
        compression: str = "none",
        transaction_timeout_ms: int = 300_000,
        patience_seconds: float = 60.0,
        group: str | None = None,
        source_offsets: SourceOffsets | None = None,
        take_over: bool = False,
        untried_from: int | None = None,
        labels: Sequence[str] = (),
        observer: Callable[[Step], None] | None = None,
    ) -> None:
        """Take the settings; nothing is asked of a broker yet.

        `take_over` accepts the token of another query, a missing one, or an older checkpoint, at the first micro-batch.
        `untried_from` is the first micro-batch that was certainly never begun before. `labels` are the values of a
        column `label` whose rows are to be counted.
        """
        self._bootstrap = bootstrap_servers
        self._sink_id = sink_id
        self._topics = tuple(sorted(set(topics)))
        if not sink_id or not self._topics:
            raise SetupError("an exactly-once sink needs a sink id and at least one topic")
        self._security = security_of(settings or {})
        self._partitioner = _one_of("partitioner", partitioner, PARTITIONERS)
        self._codec = Codec[_one_of("compression", compression, [codec.name.lower() for codec in Codec]).upper()]
        self._timeout_ms = transaction_timeout_ms
        self._patience_seconds = patience_seconds
        if (group is None) != (source_offsets is None):
            raise SetupError("`group` and `source_offsets` belong together")
        self._group = group
        self._source_offsets = source_offsets
        self._take_over = take_over
        self._untried_from = untried_from
        self._labels = tuple(labels)
        self._observer = observer
        self._last_bytes: int | None = None
        self._source_partitions: int | None = None
        self._computes_alone = True
        self._has_checked_speculation = False
        self._brokers = Brokers(bootstrap_servers, self._security, patience_seconds)
        self._transactions = Transactions(self._brokers, sink_id, transaction_timeout_ms)

    @property
    def token_group(self) -> str:
        """The group whose offsets hold the token."""
        return f"{self._sink_id}.token"

    def __call__(self, records: DataFrame, batch: int) -> None:
        """Write a micro-batch, for `foreachBatch`."""
        query = records.sparkSession.sparkContext.getLocalProperty(QUERY_ID)
        if query is None:
            raise ExactlyOnceRefused("this is no micro-batch of a streaming query; `write` takes a name and a number")
        self.write(records, query=query, batch=batch)

    def write(self, records: DataFrame, *, query: str, batch: int) -> Delivered:
        """Write records once, however often it is called for the same `batch` of the same `query`."""
        if not self._has_checked_speculation:
            _refuse_speculation(records.sparkSession)
            self._has_checked_speculation = True
        prepared = _prepared(records, self._topics, with_label=bool(self._labels))
        failure: Exception | None = None
        for _ in range(MAX_ATTEMPTS):
            started = time.monotonic()
            try:
                with self._brokers:  # between micro-batches no connection is kept, and so none can go stale
                    return self._attempt(prepared, query, batch)
            except AttemptFailed as error:
                failure = error
            except Refused as error:
                if not is_lost(error):
                    raise
                failure = error
            if (time.monotonic() - started) * 1000 > self._timeout_ms:
                raise ExactlyOnceRefused(
                    f"micro-batch {batch} took longer than the transaction timeout of {self._timeout_ms} ms, so the "
                    "broker aborted it: raise transaction_timeout_ms, or let a micro-batch be smaller"
                ) from failure
        raise ExactlyOnceRefused(
            f"micro-batch {batch} could not be committed in {MAX_ATTEMPTS} attempts, the last time because: {failure}"
        ) from failure

    def _attempt(self, prepared: DataFrame, query: str, batch: int) -> Delivered:
        layout = self._layout()
        self._told(Step.LOCATED)
        identity = self._transactions.fence()
        self._told(Step.FENCED)
        # Only now: whoever else might have committed this micro-batch no longer can.
        token = token_of(self._transactions.committed(self.token_group, self._topics))
        self._told(Step.TOKEN_READ)
        is_untried = self._untried_from is not None and batch >= self._untried_from
        judged = verdict(
            token,
            query=query,
            batch=batch,
            partitions=layout.partitions,
            is_untried=is_untried,
            take_over=self._take_over,
        )
        if judged is Verdict.DONE:
            return Delivered(0, was_there=True, counts={})
        after = Token(1 if token is None else token.number + 1, query, batch, layout.partitions)
        try:
            delivered = self._transact(prepared, identity, layout, after)
        except BaseException:
            self._transactions.abort(identity)
            raise
        self._told(Step.COMMITTED)
        self._take_over = False
        self._untried_from = batch + 1
        return delivered

    def _transact(self, prepared: DataFrame, identity: Identity, layout: Layout, token: Token) -> Delivered:
        targets = [Target(topic, partition) for topic in self._topics for partition in range(layout.partitions[topic])]
        self._transactions.add_partitions(identity, targets)
        self._told(Step.PARTITIONS_ADDED)
        delivered = self._send(prepared, identity, layout, token.batch)
        self._told(Step.CHECKED)
        self._commit(identity, token)
        return delivered

    def _layout(self) -> Layout:
        patience = Patience(self._patience_seconds)
        while True:
            try:
                return self._brokers.layout(self._topics)
            except Disconnected as error:
                patience.wait(str(error))

    def _send(self, prepared: DataFrame, identity: Identity, layout: Layout, batch: int) -> Delivered:
        """Run the one Spark job of the transaction, and check that it ran as one."""
        spark = prepared.sparkSession
        partitions = tuple((topic, layout.partitions[topic]) for topic in self._topics)
        routing = Routing(
            partitions=partitions,
            labels=self._labels,
            partitioner=self._partitioner,
            batch=batch,
        )
        observer = self._observer
        sending = SendTask(
            bootstrap=self._bootstrap,
            security=self._security,
            patience_seconds=self._patience_seconds,
            identity=identity,
            targets=tuple(routing.targets),
            codec=self._codec,
            on_send=None if observer is None else lambda: observer(Step.SENT),
        )
        tasks = max(1, min(len(sending.targets), spark.sparkContext.defaultParallelism))
        in_one = self._in_one(prepared, tasks)
        if in_one is not None:
            tasks = 1
            reported = in_one.mapInArrow(RouteAndSend(routing, sending), REPORT_SCHEMA)
        else:
            packed = prepared.mapInArrow(RouteAndPack(routing, tuple(numbers_for(tasks))), PARCEL_SCHEMA)
            reported = packed.repartition(tasks, "slot").mapInArrow(UnpackAndSend(sending), REPORT_SCHEMA)
        began = time.monotonic()
        rows = reported.collect()
        if tasks == 1 and time.monotonic() - began > ALONE_SECONDS:
            self._computes_alone = False
        _check(spark, rows, tasks)
        written = sum(row["records"] for row in rows if row["what"] == WRITTEN)
        counts: dict[str, int] = {}
        for row in rows:
            if row["what"] == COUNTED and self._labels:
                label = self._labels[row["number"]]
                counts[label] = counts.get(label, 0) + row["records"]
        self._last_bytes = sum(row["bytes"] for row in rows if row["what"] == WRITTEN)
        return Delivered(written, was_there=False, counts=counts)

    def _in_one(self, prepared: DataFrame, tasks: int) -> DataFrame | None:
        """Return the records as one partition, if one task had better send them all.

        A micro-batch is taken to be as large as the last; if it is not, it takes longer, and nothing else changes.
        """
        last_bytes = math.inf if self._last_bytes is None else self._last_bytes
        if self._computes_alone and last_bytes <= ALONE_BYTES and self._has_few_partitions(prepared):
            return prepared.coalesce(1)
        return prepared.repartition(1) if last_bytes <= SMALL_BYTES or tasks == 1 else None

    def _has_few_partitions(self, prepared: DataFrame) -> bool:
        if self._source_partitions is None:  # asked once: it seldom changes
            self._source_partitions = prepared.rdd.getNumPartitions()
        return self._source_partitions <= FEW_PARTITIONS

    def _commit(self, identity: Identity, token: Token) -> None:
        notes = {Target(topic, 0): entry for topic, entry in token.entries().items()}
        self._transactions.commit_offsets(identity, self.token_group, notes)
        if self._group is not None and self._source_offsets is not None:
            ends = {Target(*place): (offset, "") for place, offset in self._source_offsets(token.batch).items()}
            if ends:
                self._transactions.commit_offsets(identity, self._group, ends)
        self._told(Step.OFFSETS_ADDED)
        self._transactions.commit(identity)

    def _told(self, step: Step) -> None:
        if self._observer is not None:
            self._observer(step)


def _one_of(name: str, given: str, known: Iterable[str]) -> str:
    known = tuple(known)
    if given not in known:
        raise SetupError(f"{name} {given!r} is not one of {', '.join(known)}{did_you_mean(given, known)}")
    return given


def _refuse_speculation(spark: SparkSession) -> None:
    if spark.sparkContext.getConf().get("spark.speculation", "false") == "true":
        raise ExactlyOnceRefused("spark.speculation runs tasks twice at once, which would write twice: turn it off")


def _prepared(records: DataFrame, topics: Sequence[str], *, with_label: bool) -> DataFrame:
    """Return the columns that are sent, as the types that they are sent as."""
    there = set(records.columns)
    if "value" not in there:
        raise ExactlyOnceRefused(f"the records have no column 'value'; they have {', '.join(records.columns)}")
    if "topic" not in there and len(topics) > 1:
        raise ExactlyOnceRefused("the sink has several topics, so the records need a column 'topic'")
    types = {"value": "binary", "topic": "string", "partition": "int", "headers": HEADERS_TYPE}
    columns = [f"cast({name} AS {kind}) AS {name}" for name, kind in types.items() if name in there]
    columns.append(f"cast({'key' if 'key' in there else 'null'} AS binary) AS key")
    if with_label:
        columns.append("cast(label AS string) AS label")
    return records.selectExpr(*columns)  # one call to the JVM, where columns made one by one would be dozens


def _check(spark: SparkSession, rows: Sequence[Row], tasks: int) -> None:
    """Raise if anything but one first attempt of every task can have written in this transaction."""
    refusals = [row["text"] for row in rows if row["what"] == REFUSED]
    if refusals:
        raise ExactlyOnceRefused(refusals[0])
    away = [row["text"] for row in rows if row["what"] == AWAY]
    if away:
        raise BrokerAway(away[0])
    failures = [row["text"] for row in rows if row["what"] == FAILED]
    if failures:
        raise AttemptFailed(failures[0])
    reports = [row for row in rows if row["what"] == TASK]
    if sorted(row["task"] for row in reports) != list(range(tasks)):
        raise AttemptFailed(f"{len(reports)} of {tasks} tasks have reported")
    again = [row["task"] for row in reports if row["attempt"]]
    if again:
        raise AttemptFailed(f"task {again[0]} ran more than once")
    owners = [row["number"] for row in rows if row["what"] == WRITTEN]
    if len(owners) != len(set(owners)):
        raise AttemptFailed("two tasks wrote to one partition")
    _check_stage(spark, reports[0]["stage"])


def _check_stage(spark: SparkSession, stage: int) -> None:
    """Raise if the stage that sent the records ran again, wholly or in part; only Spark's own books tell that."""
    context: Any = spark.sparkContext
    try:
        context._jsc.sc().listenerBus().waitUntilEmpty(LISTENER_MS)  # noqa: SLF001 - the books are kept behind it
    except Py4JError as error:
        raise AttemptFailed("Spark's books are behind") from error
    told = context.statusTracker().getStageInfo(stage)
    if told is None:
        raise AttemptFailed("Spark no longer knows the stage that sent the records")
    if told.currentAttemptId or told.numFailedTasks:
        raise AttemptFailed(f"the stage that sent the records ran again or lost a task ({told.numFailedTasks} failed)")
