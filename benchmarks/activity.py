"""How long the activity pipeline takes to count an event, at 5,000 events a second.

One Spark runs the pipeline on both brokers from the beginning to the end of the line, and only one of them gets events
at a time. So no turn pays for a start, both are as warm as they get, and a turn is short enough for many of them.
"""

import contextlib
import json
import statistics
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, TopicPartition

from benchmarks.brokers import ROOT, Broker
from benchmarks.measuring import Arena, Metric, Target
from benchmarks.spark import TURNS_TO_WARM_UP, spark
from benchmarks.topics import TIMEOUT_SECONDS
from highwater_spark.definition.load import load
from highwater_spark.definition.model import Kafka
from highwater_spark.run.runner import Runner, RunOptions
from highwater_spark.shipped.catalog import SHIPPED
from highwater_spark.shipped.demo import Task, Watcher
from highwater_spark.shipped.generators import GENERATORS, Sender

COUNTS: Final = "activity.page-counts"
RATE: Final = 5_000.0
TURN_SECONDS: Final = 12.0
SETTLING_SECONDS: Final = 4.0  # the first micro-batch of a turn finds fewer events than the later ones
SAMPLE_SECONDS: Final = 0.01
START_SECONDS: Final = 180.0
DRAIN_SECONDS: Final = 120.0
P50, P99 = "p50", "p99"

Moments = list[tuple[int, float]]
"""How many views there were at which time."""


def latency(arena: Arena) -> list[Metric]:
    """From an event's acknowledgement to its being counted in the output topic."""
    metrics = [Metric(name, "s", Target(at_most=1.0)) for name in (P50, P99)]
    with contextlib.ExitStack() as stack:
        pipelines = {broker.name: stack.enter_context(running_pipeline(broker)) for broker in arena.brokers}
        for _ in range(TURNS_TO_WARM_UP):
            for pipeline in pipelines.values():
                pipeline.turn()
        return arena.alternate(metrics, lambda broker: pipelines[broker.name].turn())


@contextlib.contextmanager
def running_pipeline(broker: Broker) -> Iterator["RunningPipeline"]:
    """Run the shipped pipeline on a broker."""
    with tempfile.TemporaryDirectory(prefix="pipeline-", dir=ROOT / ".bench") as folder:
        pipeline = load(SHIPPED / "activity.yaml", bootstrap=broker.bootstrap).moved_to(Path(folder))
        sender_to(pipeline.kafka).prepare()
        stop, watcher = threading.Event(), Watcher()
        task = Task(Runner(spark().newSession(), pipeline, RunOptions(stop=stop), watcher).run)
        task.start()
        try:
            deadline = time.monotonic() + START_SECONDS
            while watcher.last is None:
                task.check()
                assert time.monotonic() < deadline, f"the pipeline did not start on {broker.name}"
                time.sleep(0.05)
            with contextlib.closing(Counts(pipeline.kafka)) as counts:
                yield RunningPipeline(pipeline.kafka, task, counts)
        finally:
            stop.set()
            task.join()
        task.check()


def sender_to(kafka: Kafka) -> Sender:
    """Return a sender of the same events to whichever broker."""
    return Sender(kafka, GENERATORS["activity"], rate=RATE, seed=1)


class Counts:
    """What the pipeline has counted so far: the latest value of each key of its output."""

    def __init__(self, kafka: Kafka) -> None:
        self.views = 0
        self._of_key: dict[bytes, int] = {}
        self._consumer = Consumer({"bootstrap.servers": kafka.bootstrap, "group.id": "benchmark", "log_level": 0})
        partitions = self._consumer.list_topics(COUNTS, timeout=TIMEOUT_SECONDS).topics[COUNTS].partitions
        self._consumer.assign([TopicPartition(COUNTS, partition, 0) for partition in partitions])

    def read(self, timeout_seconds: float) -> None:
        """Take in what is new, after waiting for it at most so long."""
        for message in self._consumer.consume(10_000, timeout=timeout_seconds):
            assert message.error() is None, message.error()
            key, views = message.key() or b"", int(json.loads(message.value() or b"{}")["views"])
            self.views += views - self._of_key.get(key, 0)
            self._of_key[key] = views

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()


class RunningPipeline:
    """The pipeline at work on one broker, waiting for its turns."""

    def __init__(self, kafka: Kafka, task: Task, counts: Counts) -> None:
        self._kafka = kafka
        self._task = task
        self._counts = counts

    def turn(self) -> Mapping[str, float]:
        """Send for a while, wait until every view is counted, and return quantiles over the views."""
        before = self._counts.views
        sender = sender_to(self._kafka)
        sent: Moments = []
        counted: Moments = []
        with sending(sender, sent):
            self._follow(counted, lambda: False, TURN_SECONDS)
        views = sender.ledger.sent["views"]
        done = self._follow(counted, lambda: self._counts.views - before == views, DRAIN_SECONDS)
        assert done, f"{views} views were sent, {self._counts.views - before} counted on {self._kafka.bootstrap}"
        delays = delays_of(sent, [(total - before, at) for total, at in counted])
        return {P50: statistics.median(delays), P99: statistics.quantiles(delays, n=100)[98]}

    def _follow(self, counted: Moments, until: Callable[[], bool], seconds: float) -> bool:
        """Note what is counted, until something is so or for so long; return whether it is so."""
        deadline = time.perf_counter() + seconds
        while time.perf_counter() < deadline and not until():
            self._task.check()
            self._counts.read(SAMPLE_SECONDS)
            counted.append((self._counts.views, time.perf_counter()))
        return until()


@contextlib.contextmanager
def sending(sender: Sender, sent: Moments) -> Iterator[None]:
    """Send in the background; note how many views were acknowledged at which time."""
    enough = threading.Event()

    def sample() -> None:
        while not enough.wait(SAMPLE_SECONDS):
            sent.append((sender.ledger.sent["views"], time.perf_counter()))

    tasks = [Task(lambda: sender.run(enough)), Task(sample)]
    for task in tasks:
        task.start()
    try:
        yield
    finally:
        enough.set()
        for task in tasks:
            task.join()
    for task in tasks:
        task.check()


def delays_of(sent: Moments, counted: Moments) -> list[float]:
    """Return, for views acknowledged at even intervals, how much later as many were counted."""
    settled = sent[0][1] + SETTLING_SECONDS
    totals = [views for views, _ in counted]
    return [counted[bisect_left(totals, views)][1] - at for views, at in sent if at >= settled]
