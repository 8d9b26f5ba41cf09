"""What a broker and its compaction process say to each other over pipes.

All messages are pickles behind their length; both ends are ours.
The broker sends one `Job`. The process sends each `CompactedGroup` that it has written, and waits for one byte: `GO_ON`
when it is in place, `STOP` when it cannot be. `Finished` or `Failed` is the last word.
"""

import pickle
from dataclasses import dataclass
from struct import Struct
from typing import Final, TypeAlias

from highwater.storage.compaction.plan import CompactedGroup, CompactionPlan

GO_ON: Final = b"\x01"
STOP: Final = b"\x00"
LENGTH: Final = Struct(">I")


@dataclass(frozen=True, slots=True)
class Job:
    """What to compact, how fast at most, and whether everybody else who wants the processor goes first."""

    plan: CompactionPlan
    max_bytes_per_second: float
    gives_way: bool = True


@dataclass(frozen=True, slots=True)
class Finished:
    """Every group is in place."""

    end_offset: int
    records_read: int
    records_kept: int


@dataclass(frozen=True, slots=True)
class Failed:
    """This log cannot be compacted, and why."""

    reason: str


Report: TypeAlias = CompactedGroup | Finished | Failed


def encode(message: Job | Report) -> bytes:
    """Return a message as it goes over a pipe."""
    data = pickle.dumps(message)
    return LENGTH.pack(len(data)) + data
