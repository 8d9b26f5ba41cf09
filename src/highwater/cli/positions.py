"""Places in a topic as users name them: `earliest`, `latest`, an offset, `-10` (the last ten), a time, `15m` (ago)."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from datetime import datetime
from enum import Enum, auto
from typing import TYPE_CHECKING, Annotated, Final

import typer

from highwater.cli.cluster import REQUEST_TIMEOUT_SECONDS, Cluster, answers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from confluent_kafka.admin import OffsetSpec

HELP: Final = (
    "earliest, latest, an offset, -N (the last N of each partition), a time (2025-01-31T12:00 or 2025-01-31T12:00Z) "
    "or how long ago (30s, 15m, 2h, 7d)"
)
MS_PER_UNIT: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


class Kind(Enum):
    """What the number of a position means."""

    EARLIEST = auto()
    LATEST = auto()
    OFFSET = auto()
    BEFORE_END = auto()
    TIME = auto()


@dataclass(frozen=True, slots=True)
class Position:
    """A place that means one offset in each partition."""

    kind: Kind
    number: int = 0


@dataclass(frozen=True, slots=True)
class Span:
    """The offsets that a partition holds: from `earliest` up to, not including, `latest`."""

    earliest: int
    latest: int

    def nearest(self, offset: int) -> int:
        """Return the offset, or the end of the span that is closest to it."""
        return min(max(offset, self.earliest), self.latest)


EARLIEST: Final = Position(Kind.EARLIEST)
LATEST: Final = Position(Kind.LATEST)


def parse_position(text: str) -> Position:
    """Return the position that a user wrote."""
    if text in {"earliest", "latest"}:
        return EARLIEST if text == "earliest" else LATEST
    if re.fullmatch(r"\d{1,18}", text):
        return Position(Kind.OFFSET, int(text))
    if re.fullmatch(r"-\d{1,18}", text):
        return Position(Kind.BEFORE_END, -int(text))
    if ago := re.fullmatch(r"(\d{1,9})([smhd])", text):
        return Position(Kind.TIME, int(time.time() * 1000) - int(ago[1]) * MS_PER_UNIT[ago[2]])
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is none of: {HELP}") from None
    return Position(Kind.TIME, int(moment.timestamp() * 1000))


StartOption = Annotated[
    Position,
    typer.Option(
        "--from",
        parser=parse_position,
        metavar="POSITION",
        default_factory=lambda: "earliest",
        show_default="earliest",
        help=f"Where to start: {HELP}.",
    ),
]


def spans(cluster: Cluster, topic: str, partitions: Iterable[int]) -> dict[int, Span]:
    """Return what each partition holds now."""
    from confluent_kafka.admin import OffsetSpec

    partitions = list(partitions)
    first = lookup(cluster, topic, partitions, OffsetSpec.earliest())
    last = lookup(cluster, topic, partitions, OffsetSpec.latest())
    return {partition: Span(first[partition], last[partition]) for partition in partitions}


def offsets_at(cluster: Cluster, position: Position, topic: str, held: dict[int, Span]) -> dict[int, int]:
    """Return the offset that a position means in each partition, never outside of what the partition holds."""
    from confluent_kafka.admin import OffsetSpec

    match position.kind:
        case Kind.EARLIEST:
            return {partition: span.earliest for partition, span in held.items()}
        case Kind.LATEST:
            return {partition: span.latest for partition, span in held.items()}
        case Kind.OFFSET:
            return {partition: span.nearest(position.number) for partition, span in held.items()}
        case Kind.BEFORE_END:
            return {partition: span.nearest(span.latest - position.number) for partition, span in held.items()}
        case Kind.TIME:
            found = lookup(cluster, topic, held, OffsetSpec.for_timestamp(position.number))
            # No record is that young: the next one to come will be.
            return {partition: held[partition].latest if at < 0 else at for partition, at in found.items()}


def lookup(cluster: Cluster, topic: str, partitions: Iterable[int], spec: OffsetSpec) -> dict[int, int]:
    """Ask the partitions' leaders for one offset each; -1 where there is none."""
    from confluent_kafka import TopicPartition

    asked = {TopicPartition(topic, partition): spec for partition in partitions}
    found = answers(cluster.admin.list_offsets(asked, request_timeout=REQUEST_TIMEOUT_SECONDS))
    return {place.partition: result.offset for place, result in found.items()}
