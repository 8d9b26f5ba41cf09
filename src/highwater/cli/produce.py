"""`highwater produce`: write the lines of stdin to a topic."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from highwater.cli.failures import CommandFailed, meaning
from highwater.cli.options import AsJson, ClientSettings, ClusterOption, TopicArgument, key_values
from highwater.cli.output import counted, say, show_json
from highwater.cli.record_text import from_json_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from confluent_kafka import KafkaError, Message, Producer

    from highwater.cli.cluster import Cluster

DELIVERY_TIMEOUT_MS: Final = 30_000


class Acks(StrEnum):
    """Which replicas must have a record before it counts as written."""

    NONE = "0"
    LEADER = "1"
    ALL = "all"


class Compression(StrEnum):
    """How batches are compressed."""

    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


AcksOption = Annotated[Acks, typer.Option("--acks", help="Who must have a record before it counts as written.")]
CompressionOption = Annotated[Compression, typer.Option("--compression", "-z", help="How batches are compressed.")]


Headers = list[tuple[str, str | bytes | None]]


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One record on its way."""

    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(slots=True)
class Tally:
    """What became of the records, counted as the broker's answers come in."""

    written: int = 0
    size_bytes: int = 0
    failed: int = 0
    first_failure: KafkaError | None = None
    last_offsets: dict[int, int] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """Take one answer."""
        if error is not None:
            self.failed += 1
            self.first_failure = self.first_failure or error
            return
        partition = message.partition() or 0
        self.written += 1
        self.size_bytes += len(message.key() or b"") + len(message.value() or b"")
        self.counts[partition] += 1
        self.last_offsets[partition] = max(self.last_offsets.get(partition, -1), message.offset() or 0)


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("produce")(produce)


def produce(
    topic: TopicArgument,
    *,
    cluster: ClusterOption,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", help="What stands before this in a line is the key.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="The key of every record.")] = None,
    headers: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE", help="On every record; may be repeated.")
    ] = None,
    null: Annotated[str | None, typer.Option("--null", help="A value that is this text is sent as null.")] = None,
    json_lines: Annotated[
        bool, typer.Option("--json-lines", help="Lines are records as `highwater consume --json` writes them.")
    ] = False,
    partition: Annotated[
        int | None, typer.Option("--partition", "-p", min=0, help="Not by key, but to this one.")
    ] = None,
    acks: AcksOption = Acks.ALL,
    compression: CompressionOption = Compression.NONE,
    create: Annotated[bool, typer.Option("--create", help="Make the topic if it does not exist.")] = False,
    settings: ClientSettings = None,
    as_json: AsJson = False,
) -> None:
    """Write each line of stdin to a topic as one record."""
    if key is not None and key_separator is not None:
        raise typer.BadParameter("a key comes from --key or from the line by --key-separator, not both")
    if create:
        _create_if_missing(cluster, topic)
    cluster.partitions_of(topic, None if partition is None else [partition])
    parse = LineParser(key_separator, key, key_values(headers, option="--header"), null, json_lines=json_lines)
    client = {
        "acks": acks.value,
        "compression.type": compression.value,
        "enable.idempotence": acks is Acks.ALL,
        "message.timeout.ms": DELIVERY_TIMEOUT_MS,
        "linger.ms": 20,
        **key_values(settings, option="--setting"),
    }
    tally = Tally()
    producer = cluster.producer(client)
    if sys.stdin.isatty():
        say(f"each line becomes a record of {topic}; Ctrl-D ends")
    try:
        for record in parse.records():
            _send(producer, topic, record, partition, tally)
            if tally.first_failure is not None:
                break
    finally:
        unsent = producer.flush(DELIVERY_TIMEOUT_MS / 1000)
    _tell(topic, tally, as_json=as_json)
    if tally.failed or unsent:
        reason = meaning(tally.first_failure) if tally.first_failure else "the broker did not answer in time"
        raise CommandFailed(f"not written: {counted(tally.failed + unsent, 'record')}; {reason}")


class LineParser:
    """Turns the lines of stdin into records."""

    def __init__(
        self, key_separator: str | None, key: str | None, headers: dict[str, str], null: str | None, *, json_lines: bool
    ) -> None:
        self._separator = key_separator.encode().decode("unicode_escape").encode() if key_separator else None
        self._key = key.encode() if key is not None else None
        self._headers: Headers = [(name, value.encode()) for name, value in headers.items()]
        self._null = null.encode() if null is not None else None
        self._json_lines = json_lines

    def records(self) -> Iterator[Outgoing]:
        """Yield a record for each line."""
        for number, line in enumerate(sys.stdin.buffer, start=1):
            text = line.rstrip(b"\r\n") if line.endswith(b"\n") else line
            yield self._from_json(text, number) if self._json_lines else self._from_text(text, number)

    def _from_text(self, line: bytes, number: int) -> Outgoing:
        key, value = self._key, line
        if self._separator is not None:
            key, found, value = line.partition(self._separator)
            if not found:
                raise CommandFailed(
                    f"line {number} has no key separator {self._separator.decode()!r}; the lines before it were sent"
                )
        return Outgoing(key, None if value == self._null else value, self._headers)

    def _from_json(self, line: bytes, number: int) -> Outgoing:
        try:
            document: dict[str, Any] = json.loads(line)
            headers: Headers = [(str(name), from_json_value(value)) for name, value in document.get("headers") or ()]
            return Outgoing(
                from_json_value(document.get("key")), from_json_value(document["value"]), headers + self._headers
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            raise CommandFailed(
                f'line {number} is not a record like {{"key": ..., "value": ..., "headers": [...]}}'
            ) from None


def _send(producer: Producer, topic: str, record: Outgoing, partition: int | None, tally: Tally) -> None:
    place = -1 if partition is None else partition  # -1: the client library chooses by key
    while True:
        try:
            producer.produce(
                topic, record.value, record.key, place, headers=record.headers, on_delivery=tally.delivered
            )
        except BufferError:  # librdkafka's queue is full: wait until the broker has taken some of it
            producer.poll(0.1)
        else:
            producer.poll(0)
            return


def _create_if_missing(cluster: Cluster, topic: str) -> None:
    from highwater.cli.topic import create

    create([topic], cluster=cluster, if_missing=True)


def _tell(topic: str, tally: Tally, *, as_json: bool) -> None:
    if as_json:
        partitions = [
            {"partition": partition, "records": count, "last_offset": tally.last_offsets[partition]}
            for partition, count in sorted(tally.counts.items())
        ]
        show_json({"topic": topic, "records": tally.written, "bytes": tally.size_bytes, "partitions": partitions})
    elif tally.written:
        say(f"wrote {counted(tally.written, 'record')} ({counted(tally.size_bytes, 'byte')}) to {topic}")
