"""The activity pipeline at work: events flow, the top pages update on the screen, and the totals add up."""

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow.dataset as ds
from confluent_kafka import Consumer, TopicPartition
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table

from highwater_spark.definition.load import load
from highwater_spark.definition.model import Kafka, Pipeline
from highwater_spark.errors import RunFailed
from highwater_spark.kafka.clients import librdkafka_settings
from highwater_spark.run.progress import Snapshot
from highwater_spark.run.runner import Runner, RunOptions
from highwater_spark.session import session
from highwater_spark.shipped.catalog import SHIPPED
from highwater_spark.shipped.generators import GENERATORS, Ledger, Sender

TOP: Final = 8
FRAME_SECONDS: Final = 0.5
CATCH_UP_SECONDS: Final = 180.0
PLAIN_EVERY_SECONDS: Final = 5.0
SETTINGS: Final = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",  # a demo is over before the optimiser pays
}


class TopPages:
    """The views of each page, as the topic of the pipeline tells them: the latest value of a key counts."""

    def __init__(self, kafka: Kafka, topic: str) -> None:
        self._latest: dict[bytes, tuple[str, int]] = {}
        self._consumer = Consumer(librdkafka_settings(kafka) | {"group.id": "demo", "fetch.wait.max.ms": 100})
        partitions = self._consumer.list_topics(topic, timeout=10).topics[topic].partitions
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in partitions])

    def read(self, timeout_seconds: float = FRAME_SECONDS) -> None:
        """Take in what is new, after waiting for it at most so long."""
        for message in self._consumer.consume(10_000, timeout=timeout_seconds):
            if message.error() is None:
                row = json.loads(message.value() or b"{}")
                self._latest[message.key() or b""] = (row["page"], row["views"])

    @property
    def pages(self) -> Counter[str]:
        """Views by page, over all minutes."""
        counts: Counter[str] = Counter()
        for page, views in self._latest.values():
            counts[page] += views
        return counts

    def close(self) -> None:
        """Let go of the broker."""
        self._consumer.close()


@dataclass(slots=True)
class Watcher:
    """Shows a run by remembering how it last stood."""

    last: Snapshot | None = None

    def show(self, snapshot: Snapshot) -> None:
        """Remember how it stands."""
        self.last = snapshot

    def say(self, text: str) -> None:
        """Nothing but the numbers counts here."""


class Task(threading.Thread):
    """Work beside the screen; what it raises is raised where it is awaited."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self.failure: BaseException | None = None

    def run(self) -> None:
        """Do the work."""
        try:
            self._work()
        except BaseException as error:  # noqa: BLE001 - handed on to whoever waits
            self.failure = error

    def check(self) -> None:
        """Raise what the work has raised, if it has."""
        if self.failure is not None:
            raise self.failure


def run_demo(console: Console, bootstrap: str, folder: Path, *, seconds: float, rate: float = 500.0) -> None:
    """Run the activity pipeline on a broker for a while; raises unless every event is accounted for."""
    pipeline = load(SHIPPED / "activity.yaml", bootstrap=bootstrap).moved_to(folder)
    console.print("[green]✓[/] pipeline activity: page views and searches in, top pages and tables out; starting Spark")
    spark = session(app_name="demo", master="local[2]", conf=SETTINGS, log_file=folder / "spark.log")
    sender = Sender(pipeline.kafka, GENERATORS["activity"], rate=rate)
    sender.prepare()
    stop, enough, watcher = threading.Event(), threading.Event(), Watcher()
    running = Task(Runner(spark, pipeline, RunOptions(stop=stop), watcher).run)
    sending = Task(lambda: sender.run(enough))
    try:
        running.start()
        _await(lambda: watcher.last is not None, running)
        sending.start()
        with ExitStack() as stack:
            pages = TopPages(pipeline.kafka, "activity.page-counts")
            stack.callback(pages.close)
            screen = _Screen(stack, console, sender.ledger, pages, watcher)
            screen.follow(lambda: False, seconds, running, sending)
            enough.set()
            sending.join()
            sending.check()
            complete = screen.follow(
                lambda: _is_complete(sender.ledger, pages, watcher), CATCH_UP_SECONDS, running, sending
            )
    finally:
        enough.set()
        stop.set()
        running.join()
        spark.stop()
    running.check()
    _prove(console, pipeline, sender.ledger, pages, watcher, complete=complete)


class _Screen:
    """Shows pages and numbers: in place on a terminal, as lines elsewhere."""

    def __init__(self, stack: ExitStack, console: Console, ledger: Ledger, pages: TopPages, watcher: Watcher) -> None:
        self._console = console
        self._ledger, self._pages, self._watcher = ledger, pages, watcher
        self._live = stack.enter_context(Live(console=console, refresh_per_second=4)) if console.is_terminal else None
        self._next_line = 0.0

    def follow(self, until: Callable[[], bool], seconds: float, *tasks: Task) -> bool:
        """Show until something is so, or for so long; return whether it is so."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for task in tasks:
                task.check()
            self._pages.read()
            self._show()
            if until():
                return True
        return until()

    def _show(self) -> None:
        if self._live is not None:
            self._live.update(self._drawn())
        elif time.monotonic() >= self._next_line:
            self._next_line = time.monotonic() + PLAIN_EVERY_SECONDS
            page, views = next(iter(self._pages.pages.most_common(1)), ("-", 0))
            self._console.print(f"{self._ledger.total:,} events sent; top page {page} with {views:,} views")

    def _drawn(self) -> Group:
        table = Table(title="Top pages, live from the topic activity.page-counts", title_justify="left")
        table.add_column("page", min_width=24)
        table.add_column("views", justify="right", min_width=9)
        counts = self._pages.pages
        most = max(counts.values(), default=1)
        table.add_column("", min_width=40)
        for page, views in counts.most_common(TOP):
            table.add_row(page, f"{views:,}", f"[cyan]{'█' * round(40 * views / most)}[/]")
        last = self._watcher.last
        lag = sum(query.lag for query in last.queries) if last else 0
        dead = last.dead_letters if last else 0
        line = (
            f"{self._ledger.total:,} events sent · {counts.total():,} views counted · lag {lag:,} · {dead} dead letters"
        )
        return Group(table, line)


def _await(condition: Callable[[], bool], task: Task) -> None:
    deadline = time.monotonic() + CATCH_UP_SECONDS
    while not condition():
        task.check()
        if time.monotonic() > deadline:
            raise RunFailed(f"the pipeline did not start in {CATCH_UP_SECONDS:.0f} s")
        time.sleep(FRAME_SECONDS / 5)


def _is_complete(ledger: Ledger, pages: TopPages, watcher: Watcher) -> bool:
    last = watcher.last
    return (
        last is not None
        and pages.pages.total() == ledger.sent["views"]
        and last.rows_out.get("views-table", 0) == ledger.sent["views"]
        and last.dead_letters == ledger.sent["broken"]
    )


def _prove(
    console: Console, pipeline: Pipeline, ledger: Ledger, pages: TopPages, watcher: Watcher, *, complete: bool
) -> None:
    """Compare what came out with what went in."""
    views, broken = ledger.sent["views"], ledger.sent["broken"]
    table = next(sink.path for sink in pipeline.table_sinks if sink.name == "views-table")
    rows = ds.dataset(table, partitioning="hive").count_rows()
    counted = pages.pages.total()
    dead = watcher.last.dead_letters if watcher.last else 0
    if not complete or (counted, rows, dead) != (views, views, broken):
        raise RunFailed(
            f"{views:,} views and {broken:,} broken events were sent, but {counted:,} were counted, {rows:,} are in "
            f"the table and {dead:,} are dead letters"
        )
    console.print(f"[green]✓[/] {ledger.total:,} events sent: {views:,} views, {ledger.sent['searches']:,} searches")
    console.print(f"[green]✓[/] {counted:,} views counted by page and minute: all of them")
    console.print(f"[green]✓[/] {rows:,} rows in the Parquet table: each view once")
    console.print(f"[green]✓[/] {dead:,} broken events are dead letters, each with what is wrong in its headers")
