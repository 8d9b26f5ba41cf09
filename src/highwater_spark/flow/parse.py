"""From records to typed rows; what cannot be parsed is marked, never lost and never fatal.

`checked` gives a frame with the source's columns, the struct `kafka`, and three columns that say what is wrong with a
row: `_stage` and `_error` are null for a good row, and `_record` keeps the record as it came for a bad one.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from highwater_spark.definition.model import (
    EPOCH_MS,
    KAFKA_COLUMN,
    JsonFormat,
    RawFormat,
    Source,
    TextFormat,
)
from highwater_spark.definition.model import Column as SchemaColumn

RAW_COLUMNS: Final[Mapping[str, str]] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "headers": "array<struct<key: string, value: binary>>",
}
STAGE: Final = "_stage"
ERROR: Final = "_error"
RECORD: Final = "_record"
_RAW: Final = "_raw"
_PARSED: Final = "_parsed"
_CORRUPT: Final = "_corrupt"
_MARK: Final = "\x1e\x1f"  # separates the groups of a pattern; control characters that no log line holds


def checked(raw: DataFrame, source: Source) -> DataFrame:
    """Parse the records of a source and say of each row whether it is good."""
    text = F.col(f"{_RAW}.value").cast("string")
    unfit: Column | None = None
    why_unfit = F.lit(None)
    rows = raw.select(F.struct(*(F.col(name) for name in RAW_COLUMNS)).alias(_RAW))
    match source.parse:
        case JsonFormat(columns):
            rows = rows.withColumn(_PARSED, _json(text, columns))
            unfit = F.col(_PARSED).isNull() | F.col(f"{_PARSED}.{_CORRUPT}").isNotNull()
            why_unfit = _why_json_is_unfit(text, columns)
        case TextFormat(pattern, columns):
            rows = rows.withColumn(_PARSED, _pieces(text, pattern, source.parse))
            unfit = F.size(_PARSED) != 1 + max(source.parse.groups, default=0)
            why_unfit = F.lit("the line does not match the pattern")
        case _:
            columns = source.parse.columns
            rows = rows.withColumn(_PARSED, F.struct(text.alias("value")))
    values = [_value(source, number, column) for number, column in enumerate(columns)]
    rows = rows.select(*values, _coordinates(), _RAW, _PARSED)
    stage, error = _verdict(source, columns, unfit, why_unfit)
    is_bad = F.col(STAGE).isNotNull()
    return rows.withColumn(STAGE, stage).select(
        *(F.col(f"`{column.name}`") for column in columns),
        KAFKA_COLUMN,
        STAGE,
        F.when(is_bad, error).alias(ERROR),
        F.when(is_bad, F.col(_RAW)).alias(RECORD),
    )


def good(rows: DataFrame, source: Source) -> DataFrame:
    """Return the view of a source: its good rows, with the watermark."""
    rows = rows.where(F.col(STAGE).isNull()).drop(STAGE, ERROR, RECORD)
    if source.watermark is None or source.event_time is None:
        return rows
    if source.event_time == f"{KAFKA_COLUMN}.timestamp":
        # A watermark needs a column of its own; the struct's field cannot carry one.
        return rows.withColumn("event_time", F.col(source.event_time)).withWatermark("event_time", source.watermark)
    return rows.withWatermark(source.event_time, source.watermark)


def can_fail(source: Source) -> bool:
    """Return whether there can be records of a source that cannot be used."""
    return not isinstance(source.parse, RawFormat) or bool(source.requirements) or source.event_time is not None


def bad(rows: DataFrame) -> DataFrame:
    """Return the records that cannot be used, each with `_stage` and `_error`."""
    return rows.where(F.col(STAGE).isNotNull()).select(f"{RECORD}.*", STAGE, ERROR)


def _coordinates() -> Column:
    raw = {name: F.col(f"{_RAW}.{name}") for name in RAW_COLUMNS}
    return F.struct(
        *(raw[name].alias(name) for name in ("topic", "partition", "offset", "timestamp")),
        raw["key"].cast("string").alias("key"),
        raw["headers"].alias("headers"),
    ).alias(KAFKA_COLUMN)


def _ddl(columns: tuple[SchemaColumn, ...]) -> str:
    return ", ".join(f"`{column.name}` {_stored_type(column)}" for column in columns)


def _stored_type(column: SchemaColumn) -> str:
    return "bigint" if column.type.lower() == EPOCH_MS else column.type


def _json(text: Column, columns: tuple[SchemaColumn, ...]) -> Column:
    schema = f"{_ddl(columns)}, {_CORRUPT} string"
    return F.from_json(text, schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT})


def _pieces(text: Column, pattern: str, parse: TextFormat) -> Column:
    """Take a line apart with one match: groups joined by a mark, then split; the first piece is empty if it matched."""
    joined = "".join(f"{_MARK}${number}" for number in range(1, 1 + max(parse.groups, default=0)))
    return F.split(F.regexp_replace(text, rf"(?s)\A(?:{pattern})\z", joined), _MARK)


def _value(source: Source, number: int, column: SchemaColumn) -> Column:
    if isinstance(source.parse, TextFormat):
        piece = f"nullif(get({_PARSED}, {source.parse.groups[number]}), '')"
        value = F.expr(f"try_cast({piece} as {_stored_type(column)})")
    else:
        value = F.col(f"{_PARSED}.`{column.name}`")
    if column.type.lower() == EPOCH_MS:
        value = F.timestamp_millis(value)
    return value.alias(column.name)


def _verdict(
    source: Source, columns: tuple[SchemaColumn, ...], unfit: Column | None, why_unfit: Column
) -> tuple[Column, Column]:
    """Return the stage at which a row fails, or null, and why; the first failing check counts."""
    checks: list[tuple[str, Column, Column]] = []
    if unfit is not None:
        empty = F.col(f"{_RAW}.value").isNull()
        checks += [("parse", empty, F.lit("the record has no value")), ("parse", unfit, why_unfit)]
    if isinstance(source.parse, TextFormat):
        checks += [_cast_check(source.parse, number, column) for number, column in enumerate(columns)]
    for column in columns:
        if column.required:
            missing = F.col(f"`{column.name}`").isNull()
            checks.append(("parse", missing, F.lit(f"{column.name!r} is missing")))
    if source.event_time is not None:
        checks += _event_time_checks(source, source.event_time)
    for condition in source.requirements:
        checks.append(("require", ~F.coalesce(F.expr(condition), F.lit(False)), F.lit(f"not so: {condition}")))
    stage, error = F.lit(None).cast("string"), F.lit(None).cast("string")
    for name, fails, why in reversed(checks):
        stage, error = F.when(fails, F.lit(name)).otherwise(stage), F.when(fails, why).otherwise(error)
    return stage, error


def _cast_check(parse: TextFormat, number: int, column: SchemaColumn) -> tuple[str, Column, Column]:
    piece = F.expr(f"nullif(get({_PARSED}, {parse.groups[number]}), '')")
    fails = piece.isNotNull() & F.col(f"`{column.name}`").isNull()
    return (
        "parse",
        fails,
        F.concat(F.lit(f"{column.name!r} is no {column.type}: "), F.substr(piece, F.lit(1), F.lit(80))),
    )


def _event_time_checks(source: Source, event_time: str) -> list[tuple[str, Column, Column]]:
    """An event without a time has no window; one from the far future would move the watermark past all others."""
    at = F.col(event_time if event_time.startswith(f"{KAFKA_COLUMN}.") else f"`{event_time}`")
    latest = F.col(f"{KAFKA_COLUMN}.timestamp") + F.expr(f"interval {source.max_ahead}")
    ahead = F.concat(F.lit(f"{event_time!r} is more than max_ahead ({source.max_ahead}) ahead: "), at.cast("string"))
    checks = [("parse", at.isNull(), F.lit(f"event time {event_time!r} is missing"))]
    return [*checks, ("parse", at > latest, ahead)] if source.watermark is not None else checks


def _why_json_is_unfit(text: Column, columns: tuple[SchemaColumn, ...]) -> Column:
    """Name the columns that do not fit; computed only for the records that failed."""
    reasons = []
    for column in columns:
        given = F.get_json_object(text, f"$['{column.name}']")
        fits = F.from_json(text, f"`{column.name}` {_stored_type(column)}").getField(column.name).isNotNull()
        told = F.concat(F.lit(f"{column.name!r} is no {column.type}: "), F.substr(given, F.lit(1), F.lit(80)))
        reasons.append(F.when(given.isNotNull() & ~fits, told))
    return F.coalesce(F.nullif(F.concat_ws("; ", *reasons), F.lit("")), F.lit("the value is not a JSON object"))
