"""Writing micro-batches to a table, each exactly once.

A micro-batch is prepared in staging and then committed by replacing one small file, which lists the renames that make
it visible. A crash before that leaves nothing behind; after it, whoever comes next finishes the renames. A micro-batch
that is run again finds its own number there and writes nothing.
"""

import shutil
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from highwater_spark.definition.model import TableSink
from highwater_spark.errors import StateError
from highwater_spark.flow.delivery import Batch
from highwater_spark.flow.outputs import visible
from highwater_spark.table.layout import (
    Layout,
    partition_columns,
    read_json,
    sync_folder,
    with_partitions,
    write_json,
)
from highwater_spark.table.merge import Move, planned_moves
from highwater_spark.table.schema import aligned, arrow_schema, evolved, remember


class TableWriter:
    """The writer of one sink's Parquet table."""

    def __init__(self, sink: TableSink, writer: str) -> None:
        self._sink = sink
        if "://" in sink.path.removeprefix("file://"):
            raise StateError(f"table {sink.path}: Parquet tables need a file system; use delta or iceberg there")
        self._layout = Layout(Path(sink.path.removeprefix("file://")).absolute(), writer)
        self._folders = list(partition_columns(sink.partition_by))

    def prepare(self, *, is_first_run: bool) -> None:
        """Check that the table is ours to write to, and finish what a crash left half done."""
        commit = read_json(self._layout.commit_file)
        if commit is not None and is_first_run:
            raise StateError(
                f"table {self._layout.table} already has output of {self._layout.writer!r}, whose checkpoint is gone: "
                "--full-refresh starts both anew"
            )
        self._finish(commit)

    def check(self, view: DataFrame) -> None:
        """Check that the columns of a view fit those that the table has."""
        self._schema(with_partitions(view.select(*visible(view)), self._sink.partition_by))

    def _schema(self, rows: DataFrame) -> StructType:
        return evolved(self._layout, rows.drop(*self._folders).schema)

    def write(self, view: DataFrame, batch: Batch) -> int:
        """Write a micro-batch unless it is there already; return its number of rows."""
        commit = read_json(self._layout.commit_file)
        self._finish(commit)
        if commit is not None and commit["query"] == batch.query_id:
            if commit["batch"] == batch.number:
                return int(commit["rows"])
            if commit["batch"] > batch.number:
                raise StateError(
                    f"table {self._layout.table} is at micro-batch {commit['batch']} and its checkpoint was rolled "
                    f"back to {batch.number}: --full-refresh starts both anew"
                )
        return self._commit(view, batch)

    def clear(self) -> None:
        """Remove all that this writer has written, for a full refresh."""
        for file in sorted(self._layout.table.rglob(f"{self._layout.prefix}*.parquet")):
            file.unlink()
        self._layout.commit_file.unlink(missing_ok=True)
        if not any(self._layout.table.rglob("part-*.parquet")):
            shutil.rmtree(self._layout.table, ignore_errors=True)
        shutil.rmtree(self._layout.staging, ignore_errors=True)

    def _commit(self, view: DataFrame, batch: Batch) -> int:
        layout = self._layout
        shutil.rmtree(layout.staging, ignore_errors=True)
        rows = with_partitions(view.select(*visible(view)), self._sink.partition_by)
        schema = self._schema(rows)
        written = layout.staging / "written"
        writing = aligned(rows, schema, self._folders).write.mode("overwrite")
        writing.partitionBy(*self._folders).parquet(written.as_uri())
        moves = planned_moves(layout, written, arrow_schema(schema), self._sink.file_bytes)
        count = _rows_in(written)
        remember(layout, schema)
        commit = {
            "query": batch.query_id,
            "batch": batch.number,
            "rows": count,
            "moves": [[str(move.origin), str(move.target)] for move in moves],
        }
        write_json(layout.commit_file, commit)
        self._finish(commit)
        return count

    def _finish(self, commit: dict[str, object] | None) -> None:
        """Make the files of a committed micro-batch visible; those that already are have left staging.

        Readers see a folder's part of a micro-batch at once. Parts in several folders follow each other at once too,
        but are not one step: a table that lists its files in a log, as Delta does, is needed for that.
        """
        listed = commit["moves"] if commit is not None else []
        assert isinstance(listed, list), "we wrote it"
        moves = [Move(Path(origin), Path(target)) for origin, target in listed if Path(origin).exists()]
        for folder in {move.target.parent for move in moves}:
            folder.mkdir(parents=True, exist_ok=True)
        for move in moves:
            move.origin.replace(move.target)
        for folder in {move.target.parent for move in moves}:
            sync_folder(folder)
        shutil.rmtree(self._layout.staging, ignore_errors=True)


def _rows_in(folder: Path) -> int:
    return sum(pq.read_metadata(file).num_rows for file in folder.rglob("*.parquet"))
