"""`highwater consume`: write a topic's records to stdout."""

from __future__ import annotations

import contextlib
import json
import select
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final

import typer

from highwater.cli.options import AsJson, ClientSettings, ClusterOption, Partitions, TopicArgument, key_values
from highwater.cli.positions import StartOption
from highwater.cli.reader import Reader
from highwater.cli.record_text import as_details, as_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Message

POLL_RECORDS: Final = 500


class Isolation(StrEnum):
    """Which records of transactions are shown."""

    COMMITTED = "read_committed"
    ALL = "read_uncommitted"


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command("consume")(consume)


def consume(
    topic: TopicArgument,
    *,
    cluster: ClusterOption,
    start: StartOption,
    partitions: Partitions = None,
    follow: Annotated[bool, typer.Option("--follow/--exit-at-end", help="At the end, wait for more, or stop.")] = True,
    max_messages: Annotated[int | None, typer.Option("--max-messages", "-c", min=1, help="Stop after so many.")] = None,
    group: Annotated[
        str | None,
        typer.Option("--group", "-g", help="Share the topic with this group: start where it is, commit progress."),
    ] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", "-k", help="Write the key and this before each value.")
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", "-d", help="With partition, offset, time, key and headers.")
    ] = False,
    isolation: Annotated[
        Isolation, typer.Option("--isolation", help="Whether records of open and aborted transactions are shown.")
    ] = Isolation.COMMITTED,
    settings: ClientSettings = None,
    as_json: AsJson = False,
) -> None:
    """Write a topic's records to stdout: values, or whole records as --details or --json lines."""
    if group and partitions:
        raise typer.BadParameter("a group shares out partitions by itself: leave out --partition or --group")
    client = {"isolation.level": isolation.value, **key_values(settings, option="--setting")}
    reader = Reader(cluster, client, follow=follow, limit=max_messages)
    if group:
        reader.join(topic, group, start)
    else:
        reader.assign(topic, cluster.partitions_of(topic, partitions), start)
    line = _line_writer(key_separator, details=details, as_json=as_json)
    out = sys.stdout.buffer
    with reader, contextlib.suppress(KeyboardInterrupt):  # the usual way to stop following
        for batch in reader.batches(POLL_RECORDS):
            out.writelines(map(line, batch))
            out.flush()
            _require_a_reader(out.fileno())


def _require_a_reader(descriptor: int) -> None:
    """Notice that the reader of our pipe (`| head`) has gone, even while there is nothing to write."""
    watch = select.poll()
    watch.register(descriptor, 0)  # errors are reported without being asked for
    if any(events & select.POLLERR for _, events in watch.poll(0)):
        raise BrokenPipeError


def _line_writer(key_separator: str | None, *, details: bool, as_json: bool) -> Callable[[Message], bytes]:
    if as_json:
        return _json_line
    return _details_line if details else _value_line(key_separator)


def _json_line(message: Message) -> bytes:
    return json.dumps(as_document(message), ensure_ascii=False).encode() + b"\n"


def _details_line(message: Message) -> bytes:
    return as_details(message).encode(errors="backslashreplace") + b"\n"


def _value_line(key_separator: str | None) -> Callable[[Message], bytes]:
    if key_separator is None:
        return lambda message: (message.value() or b"") + b"\n"
    separator = key_separator.encode().decode("unicode_escape").encode()
    return lambda message: (message.key() or b"") + separator + (message.value() or b"") + b"\n"
