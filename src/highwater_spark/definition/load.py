"""Reading a pipeline file: from YAML to a `Pipeline`, with every mistake found on the way."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from highwater_spark.definition.columns import UnknownType, check_type, split_not_null
from highwater_spark.definition.document import Document, Section
from highwater_spark.definition.model import (
    KAFKA_COLUMN,
    KAFKA_OPTIONS,
    Column,
    Delivery,
    JsonFormat,
    Kafka,
    Mode,
    ParseFormat,
    Pipeline,
    PythonTransform,
    RawFormat,
    Sink,
    Source,
    SqlTransform,
    Start,
    TableSink,
    TextFormat,
    TopicSink,
    Transform,
)
from highwater_spark.errors import did_you_mean

DEFAULT_BOOTSTRAP: Final = "${HIGHWATER_BOOTSTRAP:-127.0.0.1:9092}"
DEFAULT_FILE_BYTES: Final = 32 << 20
DEFAULT_MAX_PER_TRIGGER: Final = 1_000_000  # a first run over years of records must not become one micro-batch
TABLE_FORMATS: Final = ("parquet", "delta", "iceberg")
MAX_TOPIC_NAME: Final = 249
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._-]*")
_VIEW: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]+")
_REFERENCE: Final = re.compile(r"\{([^{}]*)\}")
_INTERVAL: Final = re.compile(r"\d+ (millisecond|second|minute|hour|day)s?")
_SIZE: Final = re.compile(r"(\d+) ?(KB|MB|GB)")
_SIZE_UNITS: Final = {"KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30}
_PARTITION: Final = re.compile(r"(?:(year|month|day|hour)\((\w+)\)|\w+)")
_NAMED_GROUP: Final = re.compile(r"(?<!\\)\(\?P?<([A-Za-z_]\w*)>")


def load(path: Path | str, *, bootstrap: str | None = None, environment: Mapping[str, str] | None = None) -> Pipeline:
    """Return the pipeline that a file describes; `bootstrap` takes precedence over the file's.

    Everything that can be known without Spark and without a broker is checked. Raises `PipelineFileError` with one line
    per mistake.
    """
    document = Document(Path(path), environment)
    root = document.root()
    name = root.required_text("name")
    if name and not _NAME.fullmatch(name):
        root.mistake("name", f"{name!r} cannot be a name; use letters, digits, '.', '_' and '-', a letter first")
    views: list[str] = []
    pipeline = Pipeline(
        path=document.path,
        name=name,
        description=root.text("description"),
        kafka=_kafka(root, bootstrap),
        sources=tuple(_source(n, section, views) for n, section in root.sections("sources", "source")),
        transforms=tuple(_transform(n, section, views) for n, section in root.sections("transforms", "transform")),
        sinks=tuple(
            sink for n, section in root.sections("sinks", "sink") if (sink := _sink(n, section, views)) is not None
        ),
        dead_letters=_topic(root, "dead_letters", root.text("dead_letters", f"{name}.dead-letters")),
        checkpoint=root.text("checkpoint", f"checkpoints/{name}"),
        trigger=_interval(root, "trigger"),
        delivery=Delivery(root.choice("delivery", tuple(Delivery))),
    )
    root.close()
    for needed in ("sources", "sinks"):
        if needed not in root:
            document.mistake(1, f"a pipeline needs {needed!r}")
    _check_loops(document, pipeline)
    document.check()
    return pipeline


def _kafka(root: Section, bootstrap: str | None) -> Kafka:
    section = root.section("kafka")
    default = root.document.expand(DEFAULT_BOOTSTRAP, root.line)
    if section is None:
        return Kafka(bootstrap=bootstrap or default, options={})
    given = section.text("bootstrap", default)
    options = section.section("options")
    found: dict[str, str] = {}
    if options is not None:
        found = {name: text for name in KAFKA_OPTIONS if (text := options.text(name))}
        options.close()
    kafka = Kafka(bootstrap=bootstrap or given, options=found)
    section.close()
    return kafka


def _options(section: Section) -> dict[str, str]:
    options = section.section("options")
    return {} if options is None else {name: scalar.text for name, scalar in options.mapping().items()}


def _source(name: str, section: Section, views: list[str]) -> Source:
    _add_view(name, section, views)
    which = section.one_of("topic", "topics", "pattern")
    topics = section.texts(which) if which in {"topic", "topics"} else ()
    if which in {"topic", "topics"} and not topics:
        section.mistake(which, f"{which!r} is empty")
    for topic in topics:
        _topic(section, which or "topic", topic)
    parse = _parse(section)
    event_time = section.text("event_time") or None
    columns = [column.name for column in parse.columns]
    if event_time is not None and event_time not in {*columns, f"{KAFKA_COLUMN}.timestamp"}:
        hint = did_you_mean(event_time, columns) or f"; it is a column of the schema or {KAFKA_COLUMN}.timestamp"
        section.mistake("event_time", f"no column {event_time!r}{hint}")
    watermark = _interval(section, "watermark")
    if watermark is not None and event_time is None:
        section.mistake("watermark", "a watermark needs 'event_time': the column that says when an event happened")
    source = Source(
        name=name,
        topics=topics,
        pattern=section.text("pattern") if which == "pattern" else None,
        parse=parse,
        requirements=section.texts("require"),
        event_time=event_time,
        watermark=watermark,
        max_ahead=_interval(section, "max_ahead") or "1 hour",
        start=Start(section.choice("start", tuple(Start))),
        stop_on_data_loss=section.choice("on_data_loss", ("stop", "continue")) == "stop",
        max_per_trigger=section.number("max_per_trigger") or DEFAULT_MAX_PER_TRIGGER,
        min_partitions=section.number("min_partitions"),
        max_records_per_partition=section.number("max_records_per_partition"),
        options=_options(section),
        line=section.line,
    )
    section.close()
    return source


def _parse(section: Section) -> ParseFormat:
    parse = section.section("parse")
    if parse is None:
        return RawFormat()
    which = parse.one_of("json", "text")
    body = parse.section(which) if which else None
    parse.close()
    if body is None:
        return RawFormat()
    return _json(body) if which == "json" else _text(body)


def _json(section: Section) -> JsonFormat:
    columns = _columns(section)
    if not columns:
        section.document.mistake(section.line, "'json' needs at least one `column: type` line")
    return JsonFormat(columns)


def _text(section: Section) -> TextFormat:
    pattern = section.required_text("pattern")
    types = section.section("types")
    typed = {column.name: column for column in _columns(types)} if types is not None else {}
    section.close()
    if "(?P=" in pattern:
        section.mistake("pattern", "refer back to a group by its number, as \\1: Spark's dialect has no (?P=name)")
    try:
        compiled = re.compile(_NAMED_GROUP.sub(r"(?P<\1>", pattern))
    except re.error as error:
        section.mistake("pattern", f"the pattern is not a regular expression: {error}")
        return TextFormat(pattern, (), ())
    names = dict(compiled.groupindex)
    if pattern and not names:
        section.mistake("pattern", "the pattern names no column; write a part as (?P<name>...) to make one of it")
    for name, column in typed.items():
        if name not in names:
            hint = did_you_mean(name, names)
            section.document.mistake(column.line, f"the pattern has no group {name!r}{hint}")
    line = section.line_of("pattern")
    columns = tuple(typed.get(name) or Column(name, "string", required=False, line=line) for name in names)
    return TextFormat(_NAMED_GROUP.sub("(", pattern), columns, tuple(names.values()))


def _columns(section: Section) -> tuple[Column, ...]:
    columns = []
    for name, scalar in section.mapping().items():
        type_name, required = split_not_null(scalar.text)
        try:
            check_type(type_name)
        except UnknownType as error:
            section.mistake(name, str(error))
        if name == KAFKA_COLUMN:
            section.mistake(name, f"{KAFKA_COLUMN!r} is taken: it holds each record's topic, partition and offset")
        columns.append(Column(name, type_name, required, scalar.line))
    return tuple(columns)


def _transform(name: str, section: Section, views: list[str]) -> Transform:
    line = section.line
    which = section.one_of("sql", "python")
    transform: Transform
    if which == "python":
        reference = section.required_text("python")
        if not re.fullmatch(r"[^:]+:[A-Za-z_]\w*", reference):
            section.mistake("python", f"{reference!r} must be file.py:function or module:function")
        inputs = section.texts("inputs")
        if not inputs:
            section.document.mistake(section.line, f"{section.title} needs 'inputs': the views it is called with")
        for view in inputs:
            _check_view(section, "inputs", view, views)
        transform = PythonTransform(name=name, reference=reference, inputs=inputs, line=line)
    else:
        section.required_text("sql")
        sql = section.scalar("sql")
        sql_line = sql.first_text_line if sql else line
        transform = SqlTransform(name=name, sql=sql.text if sql else "", line=line, sql_line=sql_line)
    section.close()
    _add_view(name, section, views)
    return transform


def _sink(name: str, section: Section, views: list[str]) -> Sink | None:
    if not _NAME.fullmatch(name):
        section.document.mistake(section.line, f"{name!r} cannot name a sink; use letters, digits, '.', '_' and '-'")
    view = section.required_text("from")
    if view:
        _check_view(section, "from", view, views)
    which = section.one_of("topic", "table")
    mode = Mode(section.choice("mode", tuple(Mode)))
    if which is None:
        return None
    sink = _topic_sink(name, view, mode, section) if which == "topic" else _table_sink(name, view, mode, section)
    section.close()
    return sink


def _topic_sink(name: str, view: str, mode: Mode, section: Section) -> TopicSink:
    topic = section.required_text("topic")
    declared = section.texts("topics")
    for one in declared:
        _topic(section, "topics", one)
    if "{" in topic:
        if not declared:
            section.mistake("topic", f"{topic!r} is named by the rows: list the topics it may be under 'topics'")
        if not _TOPIC.fullmatch(_REFERENCE.sub("x", topic)):
            section.mistake("topic", f"{topic!r} is not a topic name with {{column}} in it")
    else:
        if topic:
            _topic(section, "topic", topic)
        if declared:
            section.mistake("topics", "'topics' is for a topic that rows name, such as logs.{level}")
        declared = (topic,)
    return TopicSink(
        name=name,
        view=view,
        topic=topic,
        topics=declared,
        key=section.text("key") or None,
        value=section.text("value") or None,
        mode=mode,
        partitions=section.number("partitions"),
        line=section.line,
    )


def _table_sink(name: str, view: str, mode: Mode, section: Section) -> TableSink:
    table_format = section.choice("format", TABLE_FORMATS)
    if mode is not Mode.APPEND:
        section.mistake("mode", "a table takes only final rows: leave out 'mode', or use a topic for updates")
    partition_by = section.texts("partition_by")
    for part in partition_by:
        if not _PARTITION.fullmatch(part):
            section.mistake("partition_by", f"{part!r} must be a column, or year, month, day or hour of one: day(at)")
    size = section.text("file_size", "32 MB")
    sized = _SIZE.fullmatch(size)
    if sized is None:
        section.mistake("file_size", f"{size!r} is not a size such as 32 MB")
    return TableSink(
        name=name,
        view=view,
        path=section.required_text("table"),
        format=table_format,
        partition_by=partition_by,
        file_bytes=int(sized[1]) * _SIZE_UNITS[sized[2]] if sized else DEFAULT_FILE_BYTES,
        options=_options(section),
        mode=Mode.APPEND,
        line=section.line,
    )


def _add_view(name: str, section: Section, views: list[str]) -> None:
    if not _VIEW.fullmatch(name):
        section.document.mistake(section.line, f"{name!r} cannot name a view; SQL needs letters, digits and '_'")
    if name in views:
        section.document.mistake(section.line, f"there is a source or transform {name!r} already")
    views.append(name)


def _check_view(section: Section, key: str, view: str, views: list[str]) -> None:
    if view not in views:
        known = did_you_mean(view, views) or f"; there are {', '.join(views)}"
        section.mistake(key, f"no source or transform {view!r}{known}")


def _topic(section: Section, key: str, name: str) -> str:
    if not _TOPIC.fullmatch(name) or len(name) > MAX_TOPIC_NAME or name in {".", ".."}:
        section.mistake(key, f"{name!r} cannot be a topic name; use letters, digits, '.', '_' and '-'")
    return name


def _interval(section: Section, key: str) -> str | None:
    text = section.text(key) or None
    if text is not None and not _INTERVAL.fullmatch(text):
        section.mistake(key, f"{text!r} is not a time such as 10 seconds or 2 minutes")
    return text


def _check_loops(document: Document, pipeline: Pipeline) -> None:
    """A pipeline that reads what it writes would feed itself for ever."""
    read = {topic: source for source in pipeline.sources for topic in source.topics}
    written = {topic: sink.line for sink in pipeline.topic_sinks for topic in sink.topics}
    for topic, line in written.items():
        if topic in read:
            document.mistake(
                line, f"topic {topic!r} is also read, by source {read[topic].name!r}: it would feed itself"
            )
    if pipeline.dead_letters in read or pipeline.dead_letters in written:
        document.mistake(1, f"the dead-letter topic {pipeline.dead_letters!r} must be a topic of its own")


def references(topic: str) -> list[str]:
    """Return the columns that a topic such as `logs.{level}` names."""
    return _REFERENCE.findall(topic)
