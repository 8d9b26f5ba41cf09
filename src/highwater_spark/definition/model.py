"""What a pipeline file says, once it is known to be right."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

EPOCH_MS: Final = "epoch_ms"  # a time given as a number of milliseconds; Spark's own timestamp takes seconds
KAFKA_OPTIONS: Final = (  # librdkafka's names, which our own clients take as they are and Spark's are derived from
    "security.protocol",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
)
KAFKA_COLUMN: Final = "kafka"  # each view of a source carries the record's coordinates in a struct of this name


class Start(StrEnum):
    """Where a source begins on its very first run; from then on the checkpoint says it."""

    EARLIEST = "earliest"
    LATEST = "latest"


class Mode(StrEnum):
    """Which rows of an aggregation are written, and when (Spark's output modes)."""

    APPEND = "append"  # final ones: once the watermark has passed their window
    UPDATE = "update"  # every one that changed in a micro-batch, so a later one replaces it
    COMPLETE = "complete"  # all of them, each time


class Delivery(StrEnum):
    """What a crash can do to the records of topic sinks."""

    EXACTLY_ONCE = "exactly-once"  # nothing: each is there once, whatever is killed
    AT_LEAST_ONCE = "at-least-once"  # send some twice


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a schema."""

    name: str
    type: str
    required: bool
    line: int


@dataclass(frozen=True, slots=True)
class JsonFormat:
    """Values are JSON objects with these columns."""

    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class TextFormat:
    """Values are lines of text that a pattern takes apart, one column per named group."""

    pattern: str  # Java's dialect, its groups unnamed
    columns: tuple[Column, ...]
    groups: tuple[int, ...]  # the number of the group that each column is taken from


@dataclass(frozen=True, slots=True)
class RawFormat:
    """Values are taken as they are, in one text column `value`."""

    columns: tuple[Column, ...] = (Column("value", "string", required=False, line=0),)


ParseFormat = JsonFormat | TextFormat | RawFormat


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Topics that become one view."""

    name: str
    topics: tuple[str, ...]
    pattern: str | None
    parse: ParseFormat
    requirements: tuple[str, ...]
    event_time: str | None
    watermark: str | None
    max_ahead: str
    start: Start
    stop_on_data_loss: bool
    max_per_trigger: int
    min_partitions: int | None
    max_records_per_partition: int | None
    options: Mapping[str, str] = field(default_factory=dict)
    line: int

    @property
    def subscription(self) -> str:
        """The topics as people name them."""
        return f"/{self.pattern}/" if self.pattern is not None else ", ".join(self.topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlTransform:
    """A view made by a SELECT over earlier views."""

    name: str
    sql: str
    line: int
    sql_line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonTransform:
    """A view made by a function that takes and returns DataFrames."""

    name: str
    reference: str
    inputs: tuple[str, ...]
    line: int


Transform = SqlTransform | PythonTransform


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSink:
    """A view whose rows become records of a topic, or of several that the rows name."""

    name: str
    view: str
    topic: str  # may hold {column} references
    topics: tuple[str, ...]  # every topic it may write to
    key: str | None
    value: str | None
    mode: Mode
    partitions: int | None
    line: int

    @property
    def is_routed(self) -> bool:
        """Whether the rows name their topic."""
        return "{" in self.topic

    @property
    def target(self) -> str:
        """Where it writes, as people say it."""
        return f"topic {self.topic}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSink:
    """A view whose rows are collected in the files of a table."""

    name: str
    view: str
    path: str
    format: str
    partition_by: tuple[str, ...]
    file_bytes: int
    options: Mapping[str, str]
    mode: Mode
    line: int

    @property
    def target(self) -> str:
        """Where it writes, as people say it."""
        return f"table {self.path}"


Sink = TopicSink | TableSink


@dataclass(frozen=True, slots=True, kw_only=True)
class Kafka:
    """The cluster, and how to log in to it."""

    bootstrap: str
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """A whole pipeline file."""

    path: Path
    name: str
    description: str
    kafka: Kafka
    sources: tuple[Source, ...]
    transforms: tuple[Transform, ...]
    sinks: tuple[Sink, ...]
    dead_letters: str
    checkpoint: str
    trigger: str | None  # an interval; None: as soon as the last micro-batch is done
    delivery: Delivery

    @property
    def topic_sinks(self) -> Iterator[TopicSink]:
        """The sinks that write to topics."""
        return (sink for sink in self.sinks if isinstance(sink, TopicSink))

    @property
    def table_sinks(self) -> Iterator[TableSink]:
        """The sinks that write to tables."""
        return (sink for sink in self.sinks if isinstance(sink, TableSink))

    @property
    def output_topics(self) -> dict[str, int | None]:
        """Every topic it writes to, with the number of partitions to create it with if it is not there."""
        found: dict[str, int | None] = {}
        for sink in self.topic_sinks:
            found.update(dict.fromkeys(sink.topics, sink.partitions))
        found.setdefault(self.dead_letters, 1)
        return found

    def moved_to(self, folder: Path) -> "Pipeline":
        """Return the pipeline with its checkpoint and tables in another folder than the working directory."""
        sinks = tuple(
            dataclasses.replace(sink, path=str(folder / sink.path)) if isinstance(sink, TableSink) else sink
            for sink in self.sinks
        )
        return dataclasses.replace(self, checkpoint=str(folder / self.checkpoint), sinks=sinks)

    def at(self, line: int, message: str) -> str:
        """Return a message about a line of the file."""
        return f"{self.path}:{line}: {message}"
