"""Few files instead of many: what a micro-batch brings is merged with the last file that is not full yet.

A full file is never touched again. The one that is not is replaced, by one rename, with a file that holds its rows and
the new ones. So a reader finds each row once at any moment, and small files never pile up.
"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from highwater_spark.table.layout import Layout, sequence_of


@dataclass(frozen=True, slots=True)
class Move:
    """A prepared file and the name under which readers will see it."""

    origin: Path
    target: Path


def planned_moves(layout: Layout, staged: Path, schema: pa.Schema, file_bytes: int) -> list[Move]:
    """Merge what is in the staging folder with the files that are not full, and return what is to be renamed."""
    moves: list[Move] = []
    for folder in sorted({file.parent for file in staged.rglob("*.parquet")}):
        target = layout.table / folder.relative_to(staged)
        moves += _moves_of_folder(layout, folder, target, schema, file_bytes)
    return moves


def _moves_of_folder(layout: Layout, folder: Path, target: Path, schema: pa.Schema, file_bytes: int) -> Iterator[Move]:
    committed = layout.files_in(target)
    number = sequence_of(committed[-1]) if committed else 0
    unfull = committed[-1] if committed and committed[-1].stat().st_size < file_bytes else None
    fresh = sorted(folder.glob("*.parquet"))
    small = [file for file in fresh if file.stat().st_size < file_bytes]
    merging = [unfull, *small] if unfull and small else small
    for position, group in enumerate(_groups(merging, file_bytes)):
        merged = layout.staging / "merged" / target.relative_to(layout.table) / f"{position}.parquet"
        _merge(group, merged, schema)
        if group[0] is not unfull:
            number += 1
        yield Move(merged, target / layout.file_name(number))
    for file in fresh:
        if file not in small:
            number += 1
            yield Move(file, target / layout.file_name(number))


def _groups(files: list[Path], file_bytes: int) -> Iterator[list[Path]]:
    """Split files, in order, into groups that each make one file of about the wanted size."""
    group: list[Path] = []
    size = 0
    for file in files:
        group.append(file)
        size += file.stat().st_size
        if size >= file_bytes:
            yield group
            group, size = [], 0
    if group:
        yield group


def _merge(files: list[Path], target: Path, schema: pa.Schema) -> None:
    """Write the rows of several small files to one, with all columns of the table."""
    target.parent.mkdir(parents=True, exist_ok=True)
    rows = pa.concat_tables([_with_columns(pq.read_table(file, partitioning=None), schema) for file in files])
    pq.write_table(rows, target, compression="zstd")
    with target.open("rb") as written:
        os.fsync(written.fileno())


def _with_columns(table: pa.Table, schema: pa.Schema) -> pa.Table:
    columns = [
        table.column(field.name).cast(field.type) if field.name in table.column_names else _nulls(table, field)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _nulls(table: pa.Table, field: pa.Field) -> pa.Array:
    return pa.nulls(table.num_rows, field.type)
