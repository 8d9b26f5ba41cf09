"""`highwater consume`: write a topic's records to stdout."""

from __future__ import annotations

import json
import select
import sys
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from highwater.cli.failures import CommandFailed, meaning
from highwater.cli.options import AsJson, ClientSettings, ClusterOption, Partitions, TopicArgument, key_values
from highwater.cli.output import say
from highwater.cli.positions import HELP, Position, offsets_at, parse_position, spans
from highwater.cli.record_text import as_details, as_document

if TYPE_CHECKING:
    from collections.abc import Callable

    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

    from highwater.cli.cluster import Cluster

POLL_SECONDS: Final = 0.2
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
    start: Annotated[
        Position,
        typer.Option("--from", parser=parse_position, metavar="POSITION", help=f"Where to start: {HELP}."),
    ] = "earliest",  # type: ignore[assignment] # typer parses the default as if it were typed
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
    isolation: Annotated[Isolation, typer.Option("--isolation")] = Isolation.COMMITTED,
    settings: ClientSettings = None,
    as_json: AsJson = False,
) -> None:
    """Write a topic's records to stdout: values, or whole records as --details or --json lines."""
    if group and partitions:
        raise typer.BadParameter("a group shares out partitions by itself: leave out --partition or --group")
    reader = Reader(cluster, follow=follow, limit=max_messages)
    client = {"isolation.level": isolation.value, **key_values(settings, option="--setting")}
    if group:
        reader.join(topic, group, start, client)
    else:
        reader.assign(topic, cluster.partitions_of(topic, partitions), start, client)
    try:
        reader.run(_line_writer(key_separator, details=details, as_json=as_json))
    except KeyboardInterrupt:
        pass  # the usual way to stop following
    finally:
        reader.close()


@dataclass(slots=True)
class _Ends:
    """Partitions that are read to the end, for --exit-at-end."""

    waiting: set[int]
    known: bool  # a group learns its partitions late


class Reader:
    """Reads records until the end, a limit, or for ever."""

    def __init__(self, cluster: Cluster, *, follow: bool, limit: int | None) -> None:
        self._cluster = cluster
        self._follow = follow
        self._limit = limit
        self._lost = False
        self._ends = _Ends(set(), known=False)
        self._consumer: Consumer

    def assign(self, topic: str, partitions: list[int], start: Position, client: dict[str, Any]) -> None:
        """Read given partitions from a position; nothing is committed."""
        from confluent_kafka import TopicPartition

        held = spans(self._cluster, topic, partitions)
        begin = offsets_at(self._cluster, start, topic, held)
        self._consumer = self._cluster.consumer(self._settings(client))
        self._consumer.assign([TopicPartition(topic, partition, offset) for partition, offset in begin.items()])
        self._ends = _Ends(
            {partition for partition in partitions if begin[partition] < held[partition].latest}, known=True
        )

    def join(self, topic: str, group: str, start: Position, client: dict[str, Any]) -> None:
        """Read as a member of a group; `start` is for partitions where the group has no offset yet."""
        fresh = offsets_at(self._cluster, start, topic, spans(self._cluster, topic, self._cluster.partitions_of(topic)))

        def on_assign(consumer: Consumer, assigned: list[TopicPartition]) -> None:
            places = consumer.committed(assigned, timeout=10)
            for place in places:
                if place.offset < 0:
                    place.offset = fresh.get(place.partition, 0)
            consumer.assign(places)
            self._ends = _Ends({place.partition for place in places}, known=True)

        options = {"group.id": group, "enable.auto.commit": True, "auto.offset.reset": "earliest"}
        self._consumer = self._cluster.consumer(self._settings({**options, **client}))
        self._consumer.subscribe([topic], on_assign=on_assign)

    def run(self, form: Callable[[Message], bytes]) -> None:
        """Write records until there is nothing more to do."""
        out = sys.stdout.buffer
        while not self._done():
            for message in self._consumer.consume(min(POLL_RECORDS, self._limit or POLL_RECORDS), POLL_SECONDS):
                if (error := message.error()) is not None:
                    self._on_error(error, message)
                    continue
                out.write(form(message))
                if self._limit is not None:
                    self._limit -= 1
            out.flush()
            _require_a_reader(sys.stdout.fileno())
            if self._lost and not self._follow:
                raise CommandFailed("the connection to the broker was lost; is it still running?")

    def close(self) -> None:
        """Leave the group, if any, with what was read committed."""
        self._consumer.close()

    def _done(self) -> bool:
        at_end = self._ends.known and not self._ends.waiting and not self._follow
        return self._limit == 0 or at_end

    def _on_error(self, error: KafkaError, message: Message) -> None:
        if error.name() == "_PARTITION_EOF":
            self._ends.waiting.discard(message.partition() or 0)
            return
        raise CommandFailed(meaning(error))

    def _settings(self, client: dict[str, Any]) -> dict[str, Any]:
        return {"enable.partition.eof": True, "error_cb": self._on_client_error, **client}

    def _on_client_error(self, error: KafkaError) -> None:
        if error.name() == "_ALL_BROKERS_DOWN" and not self._lost:
            self._lost = True
            if self._follow:
                say("the connection to the broker was lost; waiting for it to come back (Ctrl-C ends)")


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
