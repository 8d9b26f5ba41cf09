"""What clients did and saw, as data: written by simulated clients or by real ones, read by the checkers.

An operation whose outcome is unknown may have happened, may not, and may still happen.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Outcome = Literal["ok", "failed", "unknown"]
ALL: Final = -1
"""The acks that wait for every in-sync replica."""


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(slots=True)
class Send:
    """One record that a producer sent, with the offset if it was told one."""

    client: str
    at: float
    place: Place
    value: str
    acks: int
    is_idempotent: bool = False
    transaction: str | None = None
    outcome: Outcome = "unknown"
    offset: int = -1
    done_at: float = -1.0
    key: str | None = None
    """Its topic is compacted: a later record of the same key may take its place."""
    is_sent_anew: bool = False
    """Its client gave up the producer epoch that it was first sent with, so that no broker can tell it from another."""


@dataclass(slots=True)
class Transaction:
    """One transaction, from its beginning until its producer knew how it ended; `wanted` is what it asked for."""

    client: str
    at: float
    name: str
    wanted: Literal["nothing", "commit", "abort"] = "nothing"
    asked_at: float = -1.0
    outcome: Outcome = "unknown"
    done_at: float = -1.0


@dataclass(slots=True)
class Poll:
    """The records of one answer to a consumer, in order: (offset, value)."""

    client: str
    at: float
    place: Place
    start: int
    """The offset that was asked for."""
    records: list[tuple[int, str]]
    high_watermark: int
    only_committed: bool = False
    group: str | None = None


@dataclass(slots=True)
class Seek:
    """A consumer goes on elsewhere: at its start, after a rebalance, or because its position was out of range."""

    client: str
    at: float
    place: Place
    offset: int
    why: Literal["start", "assigned", "out of range"]


@dataclass(slots=True)
class Assignment:
    """What a member of a group was assigned in one generation."""

    client: str
    at: float
    group: str
    generation: int
    member: str
    places: list[Place]


@dataclass(slots=True)
class Owned:
    """What a member of a group reads from now on, until its next one."""

    client: str
    at: float
    group: str
    places: list[Place]
    is_expelled: bool = False
    """Whether it has just heard that it is no longer part of the group: then others may own what it did."""


@dataclass(slots=True)
class Commit:
    """A group's position, committed."""

    client: str
    at: float
    group: str
    place: Place
    offset: int
    outcome: Outcome = "unknown"
    done_at: float = -1.0


@dataclass(slots=True)
class Position:
    """A group's position, as its coordinator tells it; -1: none."""

    client: str
    at: float
    group: str
    place: Place
    offset: int
    done_at: float


@dataclass(slots=True)
class Trim:
    """Somebody asked for all records of a partition below an offset to be deleted."""

    client: str
    at: float
    place: Place
    before: int
    outcome: Outcome = "unknown"
    done_at: float = -1.0


@dataclass(slots=True)
class Drain:
    """All that a partition holds after the faults: what readers of everything see, and readers of what is committed."""

    at: float
    place: Place
    records: list[tuple[int, str]]
    committed: list[tuple[int, str]]
    end: int
    stable_end: int


@dataclass(slots=True)
class Copied:
    """In the end: all of `source` below `position`, and nothing else, was to be copied to `target`, as `...=value`."""

    at: float
    source: Place
    target: Place
    position: int


@dataclass(slots=True)
class Fault:
    """Something that was done to the cluster."""

    at: float
    what: str


Step = Send | Transaction | Poll | Seek | Assignment | Owned | Commit | Position | Trim | Drain | Copied | Fault
_KINDS: Final = {
    kind.__name__: kind
    for kind in (Send, Transaction, Poll, Seek, Assignment, Owned, Commit, Position, Trim, Drain, Copied, Fault)
}


@dataclass(slots=True)
class History:
    """The steps of one run, in the order in which they began."""

    steps: list[Step] = field(default_factory=list)

    def add(self, step: Step) -> None:
        """Take a step."""
        self.steps.append(step)

    def write(self, path: Path) -> None:
        """Write one step a line, as JSON."""
        lines = (json.dumps({"kind": type(step).__name__, **asdict(step)}) for step in self.steps)
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> History:
        """Return what `write` wrote."""
        return cls([_step(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines()])


def _step(data: dict[str, object]) -> Step:
    kind = _KINDS[str(data.pop("kind"))]
    for name in ("records", "committed"):
        if name in data:
            data[name] = [(offset, value) for offset, value in _pairs(data[name])]
    for name in ("place", "source", "target"):
        if name in data:
            data[name] = Place(*data[name])  # type: ignore[misc]
    if "places" in data:
        data["places"] = [Place(*place) for place in data["places"]]  # type: ignore[attr-defined]
    return kind(**data)  # type: ignore[arg-type]


def _pairs(value: object) -> Iterable[tuple[int, str]]:
    assert isinstance(value, list)
    return value
