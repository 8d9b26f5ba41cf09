"""Lines with Spark: its own Kafka source and sink, and how long the activity pipeline takes to count an event."""

import contextlib
import functools
import statistics
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from benchmarks.brokers import ROOT, Broker
from benchmarks.measuring import Arena, Metric, Target
from benchmarks.topics import TIMEOUT_SECONDS, scratch_topic
from highwater_spark.definition.load import load
from highwater_spark.definition.model import Pipeline
from highwater_spark.run.runner import Runner, RunOptions
from highwater_spark.session import session
from highwater_spark.shipped.catalog import SHIPPED
from highwater_spark.shipped.demo import Task, TopPages, Watcher
from highwater_spark.shipped.generators import GENERATORS, PARTITIONS, Sender

RECORDS_PER_SECOND: Final = "records/s"
RECORDS: Final = 2_000_000
RATE: Final = 5_000.0
SAMPLE_SECONDS: Final = 0.01
SETTLING_UPDATES: Final = 5
MEASURE_SECONDS: Final = 30.0
SHORTEST_SECONDS: Final = 10.0
START_SECONDS: Final = 180.0
P50, P99 = "p50", "p99"


@functools.cache
def spark() -> SparkSession:
    """The one Spark of a run; it serves both brokers, so that its warmth favours neither."""
    log = ROOT / ".bench" / "spark.log"
    conf = {"spark.driver.memory": "2g", "spark.sql.shuffle.partitions": "2"}
    return session(app_name="benchmark", master="local[2]", jars=[ROOT / ".tools" / "spark"], conf=conf, log_file=log)


def sink(arena: Arena) -> list[Metric]:
    """Spark's Kafka sink, records of 100 bytes, every default."""
    metrics = [Metric(RECORDS_PER_SECOND, "/s", Target(at_least=1.0))]
    records = arena.effort.scaled(RECORDS)

    def measure(broker: Broker) -> Mapping[str, float]:
        with scratch_topic(broker, PARTITIONS) as topic:
            started = time.perf_counter()
            write(broker, topic, records)
            return {RECORDS_PER_SECOND: records / (time.perf_counter() - started)}

    return arena.alternate(metrics, measure)


def source(arena: Arena) -> list[Metric]:
    """Spark's Kafka source over records of 100 bytes, to nowhere."""
    metrics = [Metric(RECORDS_PER_SECOND, "/s", Target(at_least=1.0))]
    records = arena.effort.scaled(RECORDS)
    with contextlib.ExitStack() as stack:
        topics = {broker.name: stack.enter_context(scratch_topic(broker, PARTITIONS)) for broker in arena.brokers}
        for broker in arena.brokers:
            write(broker, topics[broker.name], records)

        def measure(broker: Broker) -> Mapping[str, float]:
            reading = spark().read.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap)
            rows = reading.option("subscribe", topics[broker.name]).load()
            started = time.perf_counter()
            rows.write.format("noop").mode("overwrite").save()
            return {RECORDS_PER_SECOND: records / (time.perf_counter() - started)}

        return arena.alternate(metrics, measure)


def write(broker: Broker, topic: str, records: int) -> None:
    """Write records by Spark."""
    rows = spark().range(records, numPartitions=PARTITIONS)
    rows = rows.selectExpr("string(id) AS key", "rpad(string(id), 100, 'x') AS value")
    rows.write.format("kafka").option("kafka.bootstrap.servers", broker.bootstrap).option("topic", topic).save()


def latency(arena: Arena) -> list[Metric]:
    """From an event's acknowledgement to its being counted in the output topic, at 5,000 events a second."""
    metrics = [Metric(name, "s", Target(at_most=1.0)) for name in (P50, P99)]
    return arena.alternate(metrics, lambda broker: activity_latency(broker, arena.effort.scale))


def activity_latency(broker: Broker, scale: float) -> Mapping[str, float]:
    """Run the shipped pipeline for a while; return quantiles over its updates."""
    with tempfile.TemporaryDirectory(prefix="pipeline-", dir=ROOT / ".bench") as folder:
        pipeline = load(SHIPPED / "activity.yaml", bootstrap=broker.bootstrap).moved_to(Path(folder))
        forget_topics(pipeline)
        sender = Sender(pipeline.kafka, GENERATORS["activity"], rate=RATE, seed=1)
        sender.prepare()
        stop, watcher = threading.Event(), Watcher()
        running = Task(Runner(spark(), pipeline, RunOptions(stop=stop), watcher).run)
        running.start()
        try:
            await_start(running, watcher)
            with sent_by_time(sender) as sent:
                delays = counted_delays(pipeline, sent, max(SHORTEST_SECONDS, MEASURE_SECONDS * scale))
        finally:
            stop.set()
            running.join()
        running.check()
    return {P50: statistics.median(delays), P99: statistics.quantiles(delays, n=100)[98]}


def forget_topics(pipeline: Pipeline) -> None:
    """Remove what an earlier round left."""
    admin = AdminClient({"bootstrap.servers": pipeline.kafka.bootstrap, "log_level": 0})
    used = {*pipeline.output_topics, *GENERATORS["activity"].topics}
    there = used & set(admin.list_topics(timeout=TIMEOUT_SECONDS).topics)
    if there:
        for answer in admin.delete_topics(sorted(there)).values():
            answer.result(TIMEOUT_SECONDS)


def await_start(running: Task, watcher: Watcher) -> None:
    """Return when every query runs."""
    deadline = time.monotonic() + START_SECONDS
    while watcher.last is None:
        running.check()
        assert time.monotonic() < deadline, "the pipeline did not start"
        time.sleep(0.05)


@contextlib.contextmanager
def sent_by_time(sender: Sender) -> Iterator[list[tuple[int, float]]]:
    """Send in the background; fill a list with how many views were acknowledged at which time."""
    enough = threading.Event()
    sent: list[tuple[int, float]] = []

    def sample() -> None:
        while not enough.wait(SAMPLE_SECONDS):
            sent.append((sender.ledger.sent["views"], time.perf_counter()))

    tasks = [Task(lambda: sender.run(enough)), Task(sample)]
    for task in tasks:
        task.start()
    try:
        yield sent
    finally:
        enough.set()
        for task in tasks:
            task.join()
    for task in tasks:
        task.check()


def counted_delays(pipeline: Pipeline, sent: list[tuple[int, float]], seconds: float) -> list[float]:
    """Follow the output; for each update return how long ago as many views were acknowledged as are now counted.

    The time begins when the backlog of the start is worked off, as the first updates tell.
    """
    pages = TopPages(pipeline.kafka, "activity.page-counts")
    delays: list[float] = []
    before = updates = 0
    deadline = time.perf_counter() + START_SECONDS
    try:
        while time.perf_counter() < deadline:
            pages.read(SAMPLE_SECONDS)
            counted = pages.pages.total()
            if counted == before:
                continue
            before, updates = counted, updates + 1
            if updates == SETTLING_UPDATES:
                deadline = time.perf_counter() + seconds
            position = bisect_left(sent, (counted, 0.0))
            if updates > SETTLING_UPDATES and position < len(sent):
                delays.append(time.perf_counter() - sent[position][1])
    finally:
        pages.close()
    assert len(delays) > 1, "the pipeline counted nothing in the time it was watched"
    return delays
