"""The numbers of a run, from what Spark reports to what people see."""

import itertools
import json
from pathlib import Path

from rich.console import Console

from highwater_spark.definition.load import load
from highwater_spark.definition.model import Pipeline
from highwater_spark.run.progress import Lines, QueryProgress, Snapshot, drawn

_seconds = itertools.count()


def report(batch: int, start: int | None, end: int, latest: int, *, late: int = 0) -> dict[str, object]:
    def offsets(offset: int | None) -> str:
        return json.dumps({"t": {"0": offset, "1": 0}} if offset is not None else None)

    source = {"startOffset": offsets(start), "endOffset": offsets(end), "latestOffset": offsets(latest)}
    return {
        "batchId": batch,
        "timestamp": f"2026-01-31T12:00:{next(_seconds):02d}.000Z",
        "batchDuration": 500,
        "sources": [source | {"numInputRows": 7}],
        "stateOperators": [
            {"operatorName": name, "numRowsDroppedByWatermark": late, "numRowsTotal": rows}
            for name, rows in (("stateStoreSave", 2), ("dedupe", 1))
        ],
    }


def a_pipeline(tmp_path: Path) -> Pipeline:
    path = tmp_path / "p.yaml"
    path.write_text("name: p\nsources: {a: {topic: t}}\nsinks: {out: {from: a, topic: o}}\n")
    return load(path, environment={})


def test_records_are_counted_by_offsets_and_only_once_per_micro_batch() -> None:
    query = QueryProgress("records")
    query.take(report(0, None, 10, 30))
    assert (query.records_in, query.lag) == (7, 20), "the first micro-batch has no start: Spark's own count stands"
    query.take(report(1, 10, 25, 30, late=1))
    query.take(report(1, 25, 25, 30))
    assert (query.records_in, query.lag, query.late, query.remembered) == (22, 5, 2, 3)
    assert query.records_per_second == 0, "an idle report ends the rate"


def test_a_report_that_is_shown_again_is_no_news() -> None:
    """Spark keeps its last reports: a query that stood still for want of a broker seemed to have news all the time."""
    query = QueryProgress("records")
    first, idle = report(1, 10, 25, 30), report(1, 25, 25, 30)
    query.take(first)
    query.take(idle)
    told_at = query.last_news
    for again in (first, idle):
        query.take(again)
    assert query.last_news == told_at
    query.take(report(1, 25, 25, 40))
    assert query.last_news > told_at
    assert query.lag == 15


def test_the_screen_and_the_lines_show_the_same_run(tmp_path: Path) -> None:
    query = QueryProgress("records")
    query.take(report(3, 10, 25, 30))
    snapshot = Snapshot(a_pipeline(tmp_path), (query,), {"out": 15, "dead letters": 2}, None, 4.2)
    console = Console(width=140)
    with console.capture() as screen:
        console.print(drawn(snapshot))
    for shown in ("records", "15", "dead letters", "topic o"):
        assert shown in screen.get()
    with console.capture() as line:
        Lines(console).show(snapshot)
    assert "p: records batch 3: 15 in, lag 5, 0.5 s; out: out 15; dead letters 2" in line.get()


def test_why_a_run_waits_is_shown_at_once(tmp_path: Path) -> None:
    console = Console(width=140)
    lines = Lines(console)
    with console.capture() as told:
        for waiting in (None, "no broker answers", "no broker answers", None):
            lines.show(Snapshot(a_pipeline(tmp_path), (), {}, waiting, 1.0))
    assert told.get().count("waiting: no broker answers") == 1


def test_rows_of_windows_that_are_not_final_are_counted_where_only_final_ones_are_written() -> None:
    """What a deduplication remembers was written already; what a window remembers was not."""
    final, updating = QueryProgress("per_minute-append", only_final=True), QueryProgress("per_minute-update")
    for query in (final, updating):
        query.take(report(0, 0, 10, 10))
    assert (final.unfinished, updating.unfinished) == (2, 0)


def test_a_query_without_a_micro_batch_yet_says_so(tmp_path: Path) -> None:
    console = Console(width=140)
    with console.capture() as told:
        Lines(console).show(Snapshot(a_pipeline(tmp_path), (QueryProgress("records"),), {}, None, 1.0))
    assert "p: records at its first micro-batch; out: out 0" in told.get()
