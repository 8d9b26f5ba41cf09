"""Live progress of a run: rows in and out, rate, lag, time per micro-batch, dead letters."""

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from highwater_spark.definition.model import Pipeline
from highwater_spark.flow.outputs import DEAD_LETTERS
from highwater_spark.run.offsets import flattened

LINE_EVERY_SECONDS: Final = 5.0
_AGGREGATION: Final = "stateStoreSave"  # as Spark's reports name it


@dataclass(slots=True)
class QueryProgress:
    """What one query has done in this run."""

    name: str
    only_final: bool = False  # it writes a row of a window once, when the watermark has passed it
    batch: int = -1
    records_in: int = 0
    records_per_second: float = 0.0
    lag: int = 0
    batch_seconds: float = 0.0
    late: int = 0
    remembered: int = 0
    unfinished: int = 0
    last_news: float = field(default_factory=time.monotonic)
    last_report: str = ""
    """When the newest report was made, by Spark's clock: it shows the last ones again and again."""

    def take(self, report: Mapping[str, Any]) -> None:
        """Take in Spark's report of a micro-batch; reports of idle time have the number of the last one."""
        if report["timestamp"] <= self.last_report:
            return
        self.last_report = report["timestamp"]
        self.last_news = time.monotonic()
        self.lag = sum(_lag(source) for source in report["sources"])
        if report["batchId"] == self.batch:
            self.records_per_second = 0.0
            return
        records = sum(_records_in(source) for source in report["sources"])
        self.batch = report["batchId"]
        self.records_in += records
        self.batch_seconds = report["batchDuration"] / 1000
        self.records_per_second = records / self.batch_seconds if self.batch_seconds else 0.0
        operators = report["stateOperators"]
        self.late += sum(operator["numRowsDroppedByWatermark"] for operator in operators)
        self.remembered = sum(operator["numRowsTotal"] for operator in operators)
        if self.only_final:
            windows = [operator for operator in operators if operator["operatorName"] == _AGGREGATION]
            self.unfinished = sum(operator["numRowsTotal"] for operator in windows)


def _records_in(source: Mapping[str, Any]) -> int:
    """Return how many records a micro-batch read; by its offsets, as Spark counts records again when it reads again."""
    start, end = _offsets(source, "startOffset"), _offsets(source, "endOffset")
    if not start:  # the very first micro-batch has no beginning
        return int(source["numInputRows"])
    return sum(offset - start.get(place, 0) for place, offset in end.items())


def _lag(source: Mapping[str, Any]) -> int:
    end, latest = _offsets(source, "endOffset"), _offsets(source, "latestOffset")
    return sum(max(0, offset - end.get(place, 0)) for place, offset in latest.items())


def _offsets(source: Mapping[str, Any], name: str) -> dict[tuple[str, int], int]:
    try:
        return flattened(json.loads(source[name]))
    except (ValueError, TypeError, AttributeError):
        return {}  # Spark has none to tell yet


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A run at one moment."""

    pipeline: Pipeline
    queries: tuple[QueryProgress, ...]
    rows_out: Mapping[str, int]
    waiting: str | None
    seconds: float

    @property
    def dead_letters(self) -> int:
        """How many records could not be used."""
        return self.rows_out.get(DEAD_LETTERS, 0)


class Display(Protocol):
    """Whoever shows a run."""

    def show(self, snapshot: Snapshot) -> None:
        """Show how it stands."""

    def say(self, text: str) -> None:
        """Tell something that happened once."""


class Silent:
    """Shows nothing."""

    def show(self, snapshot: Snapshot) -> None:
        """Show nothing."""

    def say(self, text: str) -> None:
        """Say nothing."""


class Lines:
    """For logs and pipes: a line now and then."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0.0
        self._last = ""

    def show(self, snapshot: Snapshot) -> None:
        """Print a line every few seconds if there is news, and at once if we begin to wait."""
        line = _line(snapshot)
        now = time.monotonic()
        if line == self._last or (now < self._next and snapshot.waiting is None):
            return
        self._last, self._next = line, now + LINE_EVERY_SECONDS
        self.say(line)

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class Screen:
    """For people: a table that stays in place."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, refresh_per_second=4, transient=False)
        self._live.start()

    def show(self, snapshot: Snapshot) -> None:
        """Redraw the table."""
        self._live.update(drawn(snapshot))

    def say(self, text: str) -> None:
        """Print a line above the table."""
        self._live.console.print(text, markup=False, highlight=False)

    def close(self) -> None:
        """Leave the last table on the screen."""
        self._live.stop()


def drawn(snapshot: Snapshot) -> Group:
    """Return the table of a run."""
    pipeline = snapshot.pipeline
    queries = Table(title=f"{pipeline.name} · {snapshot.seconds:.0f} s", title_justify="left", header_style="bold")
    for heading in ("query", "batch", "records in", "records/s", "lag", "batch time", "late", "remembered"):
        queries.add_column(heading, justify="left" if heading == "query" else "right")
    for query in snapshot.queries:
        queries.add_row(
            query.name,
            str(query.batch) if query.batch >= 0 else "-",
            f"{query.records_in:,}",
            f"{query.records_per_second:,.0f}",
            f"{query.lag:,}",
            f"{query.batch_seconds:.1f} s",
            f"{query.late:,}",
            f"{query.remembered:,}",
        )
    sinks = Table(header_style="bold")
    sinks.add_column("sink")
    sinks.add_column("target")
    sinks.add_column("rows out", justify="right")
    for sink in pipeline.sinks:
        sinks.add_row(sink.name, sink.target, f"{snapshot.rows_out.get(sink.name, 0):,}")
    style = "red" if snapshot.dead_letters else ""
    sinks.add_row(DEAD_LETTERS, f"topic {pipeline.dead_letters}", f"{snapshot.dead_letters:,}", style=style)
    waiting = f"[yellow]waiting: {escape(snapshot.waiting)}[/]" if snapshot.waiting else ""
    return Group(queries, sinks, waiting)


def _line(snapshot: Snapshot) -> str:
    if snapshot.waiting is not None:
        return f"{snapshot.pipeline.name}: waiting: {snapshot.waiting}"
    queries = "; ".join(map(_query_line, snapshot.queries))
    sinks = ", ".join(f"{sink.name} {snapshot.rows_out.get(sink.name, 0)}" for sink in snapshot.pipeline.sinks)
    return f"{snapshot.pipeline.name}: {queries}; out: {sinks}; dead letters {snapshot.dead_letters}"


def _query_line(query: QueryProgress) -> str:
    if query.batch < 0:
        return f"{query.name} at its first micro-batch"
    return f"{query.name} batch {query.batch}: {query.records_in} in, lag {query.lag}, {query.batch_seconds:.1f} s"
