"""Lines with Spark's own Kafka source and sink: one Spark, both brokers in turns, every record accounted for."""

import contextlib
import functools
import time
from collections.abc import Callable, Mapping
from typing import Final

from pyspark.sql import Observation, SparkSession
from pyspark.sql.functions import count

from benchmarks.brokers import ROOT, Broker
from benchmarks.measuring import Arena, Metric, Target
from benchmarks.process_stats import cpu_seconds
from benchmarks.topics import records_in, scratch_topic
from highwater_spark.session import session

RECORDS: Final = 1_000_000
PARTITIONS: Final = 4
RECORDS_PER_SECOND: Final = "records/s"
BROKER_CPU: Final = "broker CPU per record"
TURNS_TO_WARM_UP: Final = 2
"""Before those of the arena: Spark's own JVM has to compile its way through as well, or the first to go would pay."""


@functools.cache
def spark() -> SparkSession:
    """The one Spark of a run; it serves both brokers, so that its warmth favours neither."""
    log = ROOT / ".bench" / "spark.log"
    conf = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2"}
    return session(app_name="benchmark", master="local[2]", jars=[ROOT / ".tools" / "spark"], conf=conf, log_file=log)


def sink(arena: Arena) -> list[Metric]:
    """Spark's Kafka sink, records of 100 bytes, every default."""
    records = arena.effort.scaled(RECORDS)

    def measure(broker: Broker) -> Mapping[str, float]:
        with scratch_topic(broker, PARTITIONS) as topic:
            figures = timed(broker, records, lambda: write(broker, topic, records))
            assert records_in(broker, topic, PARTITIONS) == records, f"{broker.name} does not hold what was written"
            return figures

    return in_turns(arena, measure)


def source(arena: Arena) -> list[Metric]:
    """Spark's Kafka source over records of 100 bytes, to nowhere."""
    records = arena.effort.scaled(RECORDS)
    with contextlib.ExitStack() as stack:
        topics = {broker.name: stack.enter_context(scratch_topic(broker, PARTITIONS)) for broker in arena.brokers}
        for broker in arena.brokers:
            write(broker, topics[broker.name], records)
        return in_turns(
            arena, lambda broker: timed(broker, records, lambda: read(broker, topics[broker.name], records))
        )


def in_turns(arena: Arena, measure: Callable[[Broker], Mapping[str, float]]) -> list[Metric]:
    """Warm up, then measure; the broker's processor time explains a ratio and has no target."""
    for _ in range(TURNS_TO_WARM_UP):
        for broker in arena.brokers:
            measure(broker)
    metrics = [Metric(RECORDS_PER_SECOND, "/s", Target(at_least=1.0)), Metric(BROKER_CPU, "µs", Target())]
    return arena.alternate(metrics, measure)


def timed(broker: Broker, records: int, work: Callable[[], None]) -> Mapping[str, float]:
    """Return how fast `work` went through some records, and what it cost the broker."""
    cpu, started = cpu_seconds(broker.pid), time.perf_counter()
    work()
    seconds = time.perf_counter() - started
    return {RECORDS_PER_SECOND: records / seconds, BROKER_CPU: (cpu_seconds(broker.pid) - cpu) / records * 1e6}


def write(broker: Broker, topic: str, records: int) -> None:
    """Write records by Spark."""
    rows = spark().range(records, numPartitions=PARTITIONS)
    rows = rows.selectExpr("string(id) AS key", "rpad(string(id), 100, 'x') AS value")
    rows.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option("topic", topic).save()


def read(broker: Broker, topic: str, records: int) -> None:
    """Read a topic by Spark, and make sure that all of it came."""
    reading = spark().read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
    seen = Observation()
    rows = reading.option("subscribe", topic).load().observe(seen, count("value").alias("records"))
    rows.write.format("noop").mode("overwrite").save()
    assert seen.get["records"] == records, f"{seen.get['records']} of {records} records came from {broker.name}"
