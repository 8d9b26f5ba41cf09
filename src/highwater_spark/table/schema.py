"""The columns of a table: they can be added to, never changed; old files simply lack the new ones."""

from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from highwater_spark.errors import StateError
from highwater_spark.table.layout import Layout, read_json, write_json

SCHEMA_FILE: Final = "0-schema.parquet"


def evolved(layout: Layout, given: StructType) -> StructType:
    """Return the table's columns with those that a writer adds; refuses a column that changes its type."""
    stored = read_json(layout.schema_file)
    if stored is None:
        return _nullable(given)
    known = StructType.fromJson(stored)
    types = {field.name: field.dataType for field in known}
    added = []
    for field in _nullable(given):
        if field.name not in types:
            added.append(field)
        elif types[field.name] != field.dataType:
            before, now = types[field.name].simpleString(), field.dataType.simpleString()
            raise StateError(
                f"table {layout.table}: column {field.name!r} is {before} and the pipeline now gives {now}; "
                "a table can gain columns, not change them: give it another name, or write to another table"
            )
    return StructType([*known.fields, *added])


def remember(layout: Layout, schema: StructType) -> None:
    """Store the table's columns, and let readers that trust the first file see the new ones.

    pandas and pyarrow take the columns of the first file by name for those of the whole table. So that file, an empty
    one, has them all.
    """
    stored = read_json(layout.schema_file)
    if stored == schema.jsonValue():
        return
    if stored is not None and (first := _first_folder(layout.table)) is not None:
        empty = arrow_schema(schema).empty_table()
        fresh = first / f".{SCHEMA_FILE}.new"
        pq.write_table(empty, fresh)
        fresh.replace(first / SCHEMA_FILE)
    write_json(layout.schema_file, schema.jsonValue())


def aligned(rows: DataFrame, schema: StructType, folders: list[str]) -> DataFrame:
    """Return rows with exactly the table's columns, null where a row has none, and those that become folders."""
    have = set(rows.columns)
    columns = [
        F.col(f"`{field.name}`") if field.name in have else F.lit(None).cast(field.dataType).alias(field.name)
        for field in schema
    ]
    return rows.select(*columns, *(F.col(f"`{name}`") for name in folders))


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the same columns for pyarrow."""
    return to_arrow_schema(schema)


def _first_folder(table: Path) -> Path | None:
    """Return the folder of the first data file by name."""
    files = sorted(path for path in table.rglob("part-*.parquet"))
    return files[0].parent if files else None


def _nullable(schema: StructType) -> StructType:
    return StructType([StructField(field.name, _nullable_type(field.dataType)) for field in schema])


def _nullable_type(kind: DataType) -> DataType:
    """Return a type all of whose parts may be null, so that only real changes count as such."""
    match kind:
        case StructType():
            return _nullable(kind)
        case ArrayType():
            return ArrayType(_nullable_type(kind.elementType))
        case MapType():
            return MapType(_nullable_type(kind.keyType), _nullable_type(kind.valueType))
        case _:
            return kind
