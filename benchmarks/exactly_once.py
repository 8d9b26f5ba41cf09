"""The exactly-once sink against Spark's own, which is at least once: same rows, same broker, taking turns."""

import functools
import statistics
import time
import uuid
from collections.abc import Callable
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from benchmarks.measuring import Arena, Metric, Target
from benchmarks.spark import spark
from benchmarks.topics import scratch_topic
from highwater_spark.exactly_once import ExactlyOnceSink

PARTITIONS: Final = 4
MICRO_BATCHES: Final = {"100,000 records": 100_000, "500,000 records": 500_000}
FEW: Final = 10
FEW_TIMES: Final = 10
RECORDS_PER_SECOND: Final = "records/s"
Write = Callable[[DataFrame], None]


def sinks(arena: Arena) -> list[Metric]:
    """Whole micro-batches of 100-byte records, from rows that are cached already, and what a tiny one costs.

    Of each size one goes ahead of those that count, by either sink: a stream has many alike, and ours decides by the
    last one how to send the next.
    """
    metrics = [Metric(f"{name} a micro-batch", "/s", Target(at_least=0.75)) for name in MICRO_BATCHES]
    few = Metric(f"{FEW} records", "s", Target())
    nothing: list[float] = []
    for number in range(arena.effort.rounds + 1):
        with scratch_topic(arena.ours, PARTITIONS) as topic:
            ours, theirs = exactly_once(arena.ours.bootstrap, topic), at_least_once(arena.ours.bootstrap, topic)
            for metric, records in zip(metrics, MICRO_BATCHES.values(), strict=True):
                rows = cached(records)
                ours(rows)
                theirs(rows)
                figures = records / seconds(ours, rows), records / seconds(theirs, rows)
                arena.say(f"    {metric.name}: {figures[0]:,.0f}/s, Spark's own {figures[1]:,.0f}/s")
                if number:
                    metric.ours.append(figures[0])
                    metric.theirs.append(figures[1])
            rows = cached(FEW)
            ours(rows)
            if number:
                few.ours.append(statistics.median(seconds(ours, rows) for _ in range(FEW_TIMES)))
                few.theirs.append(statistics.median(seconds(theirs, rows) for _ in range(FEW_TIMES)))
                nothing.append(statistics.median(seconds(to_nowhere, rows) for _ in range(FEW_TIMES)))
    fixed = statistics.median(few.ours) - statistics.median(nothing)
    arena.say(f"    a micro-batch of {FEW} takes {fixed:.3f} s more than the same to nowhere (target: at most 0.15 s)")
    return [*metrics, few]


@functools.cache
def micro_batch_session() -> SparkSession:
    """A session as micro-batches have it: without adaptive execution."""
    made = spark().newSession()
    made.conf.set("spark.sql.adaptive.enabled", "false")
    return made


@functools.cache
def cached(records: int) -> DataFrame:
    """Rows that cost nothing to compute."""
    rows = micro_batch_session().range(records, numPartitions=2)
    rows = rows.selectExpr("string(id) AS key", "rpad(string(id), 100, 'x') AS value").cache()
    rows.count()
    return rows


def exactly_once(bootstrap: str, topic: str) -> Write:
    """Return what writes a micro-batch in a transaction."""
    sink = ExactlyOnceSink(bootstrap, sink_id=f"benchmark-{uuid.uuid4().hex}", topics=[topic])
    numbers = iter(range(1_000_000))
    return lambda rows: _ignored(sink.write(rows, query="benchmark", batch=next(numbers)))


def at_least_once(bootstrap: str, topic: str) -> Write:
    """Return what writes a micro-batch by Spark's own sink."""
    options = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
    return lambda rows: rows.write.format("kafka").options(**options).save()


def to_nowhere(rows: DataFrame) -> None:
    """Run the job that any sink must run."""
    rows.write.format("noop").mode("overwrite").save()


def seconds(write: Write, rows: DataFrame) -> float:
    """Return how long a write takes."""
    started = time.perf_counter()
    write(rows)
    return time.perf_counter() - started


def _ignored(_result: object) -> None:
    """Make a function that returns something one that does not."""
