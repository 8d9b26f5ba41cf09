"""Tables: each micro-batch exactly once, few files, new columns, and readers that never see half a row too many."""

import dataclasses
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession

from highwater_spark.definition.model import Mode, TableSink
from highwater_spark.errors import StateError
from highwater_spark.flow.delivery import Batch
from highwater_spark.table import writer as writer_module
from highwater_spark.table.writer import TableWriter

QUERY = "query-1"
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


@pytest.fixture
def sink(tmp_path: Path) -> TableSink:
    return TableSink(
        name="history",
        view="views",
        path=str(tmp_path / "history"),
        format="parquet",
        partition_by=("day(at)",),
        file_bytes=1 << 20,
        options={},
        mode=Mode.APPEND,
        line=1,
    )


def rows(spark: SparkSession, first: int, last: int) -> DataFrame:
    numbers = spark.range(first, last, numPartitions=2)
    return numbers.selectExpr("id", f"timestamp_seconds({NOON.timestamp():.0f} + id * 3600) AS at")


def ids_by_duckdb(sink: TableSink) -> list[int]:
    found = by_duckdb(f"SELECT id FROM read_parquet('{sink.path}/**/*.parquet', union_by_name = true)")
    return sorted(number for (number,) in found)


def by_duckdb(query: str) -> list[tuple[Any, ...]]:
    relation = duckdb.connect().sql(query)
    assert relation is not None
    return relation.fetchall()


def ids_by_pandas(sink: TableSink) -> list[int]:
    return sorted(pd.read_parquet(sink.path)["id"])


def files(sink: TableSink) -> list[Path]:
    return sorted(Path(sink.path).rglob("*.parquet"))


def test_rows_lie_in_folders_by_event_time(spark: SparkSession, sink: TableSink) -> None:
    assert TableWriter(sink, "w").write(rows(spark, 0, 24), Batch(QUERY, 0)) == 24
    assert [path.parent.name for path in files(sink)] == ["day=2026-01-31", "day=2026-02-01"]
    table = f"read_parquet('{sink.path}/*/*.parquet', hive_partitioning = true)"
    by_day = by_duckdb(f"SELECT CAST(day AS varchar), count(*) FROM {table} GROUP BY day ORDER BY day")
    assert by_day == [("2026-01-31", 12), ("2026-02-01", 12)]
    frame = pd.read_parquet(sink.path)
    assert frame["at"].min() == pd.Timestamp(NOON)


def test_a_micro_batch_that_runs_again_is_not_written_again(spark: SparkSession, sink: TableSink) -> None:
    for number in (0, 0, 1, 1):
        TableWriter(sink, "w").write(rows(spark, 10 * number, 10 * number + 10), Batch(QUERY, number))
    assert ids_by_pandas(sink) == list(range(20))


def test_a_crash_after_the_commit_is_finished_by_the_next_writer(
    spark: SparkSession, sink: TableSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit lists the renames; killed before the first of them, readers see nothing, and the next start all."""
    with monkeypatch.context() as crash:
        crash.setattr(TableWriter, "_finish", lambda *_: None)
        TableWriter(sink, "w").write(rows(spark, 0, 10), Batch(QUERY, 0))
    assert files(sink) == []
    TableWriter(sink, "w").prepare(is_first_run=False)
    assert ids_by_pandas(sink) == list(range(10))
    TableWriter(sink, "w").write(rows(spark, 0, 10), Batch(QUERY, 0))
    assert ids_by_pandas(sink) == list(range(10))


def test_a_crash_before_the_commit_leaves_nothing(
    spark: SparkSession, sink: TableSink, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as crash:
        crash.setattr(writer_module, "write_json", _disk_full)
        with pytest.raises(OSError, match="disk full"):
            TableWriter(sink, "w").write(rows(spark, 0, 10), Batch(QUERY, 0))
    assert files(sink) == []
    TableWriter(sink, "w").write(rows(spark, 0, 10), Batch(QUERY, 0))
    assert ids_by_pandas(sink) == list(range(10))


def _disk_full(*_: object) -> None:
    raise OSError("disk full")


def test_many_small_micro_batches_make_few_files(spark: SparkSession, sink: TableSink) -> None:
    writer = TableWriter(sink, "w")
    for number in range(8):
        writer.write(rows(spark, number, number + 1), Batch(QUERY, number))
    assert len(files(sink)) == 1
    assert ids_by_duckdb(sink) == list(range(8))


def test_a_full_file_is_left_alone_and_a_new_one_begun(spark: SparkSession, sink: TableSink) -> None:
    writer = TableWriter(dataclasses.replace(sink, file_bytes=1), "w")
    for number in range(3):
        writer.write(rows(spark, number, number + 1), Batch(QUERY, number))
    assert len(files(sink)) == 3
    assert ids_by_duckdb(sink) == [0, 1, 2]


def test_readers_see_each_row_once_at_every_moment(spark: SparkSession, sink: TableSink) -> None:
    """DuckDB and pandas read all the time while micro-batches come in and files are merged under them."""
    writer = TableWriter(sink, "w")
    writer.write(rows(spark, 0, 5), Batch(QUERY, 0))
    done = threading.Event()
    seen: list[int] = []
    wrong: list[str] = []

    def read() -> None:
        while not done.is_set():
            for ids in (ids_by_duckdb(sink), ids_by_pandas(sink)):
                if ids != list(range(len(ids))) or (seen and len(ids) < seen[-1]):
                    wrong.append(f"{ids}")
                seen.append(len(ids))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(1, 9):
            writer.write(rows(spark, 5 * number, 5 * number + 5), Batch(QUERY, number))
    finally:
        done.set()
        reader.join()
    assert not wrong
    assert len(set(seen)) > 1, "the reader must have seen the table grow"
    assert ids_by_duckdb(sink) == list(range(45))


def test_columns_can_be_added_and_every_reader_sees_them(spark: SparkSession, sink: TableSink) -> None:
    TableWriter(sink, "w").write(rows(spark, 0, 2), Batch(QUERY, 0))
    full = dataclasses.replace(sink, file_bytes=1)  # the old file stays as it is, without the new column
    TableWriter(full, "w").write(rows(spark, 2, 3).selectExpr("*", "'web' AS channel"), Batch(QUERY, 1))
    TableWriter(full, "w").write(rows(spark, 3, 4), Batch(QUERY, 2))
    query = f"SELECT id, channel FROM read_parquet('{sink.path}/**/*.parquet', union_by_name = true) ORDER BY id"
    assert by_duckdb(query) == [(0, None), (1, None), (2, "web"), (3, None)]
    assert list(pd.read_parquet(sink.path).sort_values("id")["channel"].fillna("-")) == ["-", "-", "web", "-"]


def test_a_column_cannot_change_its_type(spark: SparkSession, sink: TableSink) -> None:
    TableWriter(sink, "w").write(rows(spark, 0, 1), Batch(QUERY, 0))
    with pytest.raises(StateError, match="column 'id' is bigint and the pipeline now gives string"):
        TableWriter(sink, "w").check(rows(spark, 0, 1).selectExpr("string(id) AS id", "at"))


def test_two_writers_share_a_table(spark: SparkSession, sink: TableSink) -> None:
    """A replay into the table of the running pipeline must not mistake its files for its own."""
    TableWriter(sink, "running").write(rows(spark, 0, 3), Batch(QUERY, 0))
    TableWriter(sink, "replay").write(rows(spark, 3, 5), Batch("other", 0))
    TableWriter(sink, "running").write(rows(spark, 5, 6), Batch(QUERY, 1))
    assert ids_by_duckdb(sink) == list(range(6))
    TableWriter(sink, "replay").clear()
    assert ids_by_duckdb(sink) == [0, 1, 2, 5]


def test_a_checkpoint_that_went_back_or_away_is_noticed(spark: SparkSession, sink: TableSink) -> None:
    TableWriter(sink, "w").write(rows(spark, 0, 1), Batch(QUERY, 7))
    with pytest.raises(StateError, match="is at micro-batch 7 and its checkpoint was rolled back to 3"):
        TableWriter(sink, "w").write(rows(spark, 0, 1), Batch(QUERY, 3))
    with pytest.raises(StateError, match="whose checkpoint is gone: --full-refresh"):
        TableWriter(sink, "w").prepare(is_first_run=True)
