"""Where the files of a table are, and what they are called.

    <table>/day=2026-01-31/part-<writer>-000001.parquet     what readers see, and nothing else ends in .parquet here
    <table>/_highwater/schema.json                          every column the table has had
    <table>/_highwater/<writer>.json                        the last committed micro-batch of a writer
    <parent>/.<table>.staging/<writer>/                     files that are not committed yet

Staging is beside the table and not in it: DuckDB's `**/*.parquet` also looks into folders that start with `_` or `.`.
"""

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_FORMATS: Final = {"year": "yyyy", "month": "yyyy-MM", "day": "yyyy-MM-dd", "hour": "yyyy-MM-dd-HH"}
_PERIOD: Final = re.compile(r"(year|month|day|hour)\((\w+)\)")
_SEQUENCE: Final = re.compile(r"part-[0-9a-f]+-(\d+)\.parquet")


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one writer of one table."""

    table: Path
    writer: str

    @property
    def own(self) -> Path:
        """The folder with what the table knows about itself."""
        return self.table / "_highwater"

    @property
    def staging(self) -> Path:
        """Where this writer prepares files."""
        return self.table.parent / f".{self.table.name}.staging" / self.writer

    @property
    def commit_file(self) -> Path:
        """The last committed micro-batch of this writer."""
        return self.own / f"{self.writer}.json"

    @property
    def schema_file(self) -> Path:
        """The columns of the table."""
        return self.own / "schema.json"

    @property
    def prefix(self) -> str:
        """How the names of this writer's files begin."""
        return f"part-{hashlib.sha256(self.writer.encode()).hexdigest()[:8]}-"

    def files_in(self, folder: Path) -> list[Path]:
        """Return this writer's committed files in a partition's folder, oldest first."""
        return sorted(folder.glob(f"{self.prefix}*.parquet"))

    def file_name(self, number: int) -> str:
        """Return the name of a writer's n-th file in a folder."""
        return f"{self.prefix}{number:06}.parquet"


def sequence_of(path: Path) -> int:
    """Return the number in a file's name."""
    found = _SEQUENCE.fullmatch(path.name)
    return int(found[1]) if found else 0


def period_of(part: str) -> tuple[str, str] | None:
    """Return the period and the column of `day(at)`, or nothing for a plain column."""
    found = _PERIOD.fullmatch(part)
    return (found[1], found[2]) if found else None


def partition_columns(partition_by: tuple[str, ...]) -> dict[str, Column]:
    """Return the columns that become folders: `day(at)` is a column `day`, a plain column is itself."""
    columns: dict[str, Column] = {}
    for part in partition_by:
        if period := period_of(part):
            columns[period[0]] = F.date_format(F.col(f"`{period[1]}`"), _FORMATS[period[0]])
        else:
            columns[part] = F.col(f"`{part}`")
    return columns


def with_partitions(rows: DataFrame, partition_by: tuple[str, ...]) -> DataFrame:
    """Add the columns that become folders."""
    return rows.withColumns(partition_columns(partition_by)) if partition_by else rows


def read_json(path: Path) -> dict[str, Any] | None:
    """Return what a small file says, or nothing if it is not there."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return found


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Replace a small file in one step that survives a crash."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("w", encoding="utf-8") as file:
        json.dump(content, file)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
