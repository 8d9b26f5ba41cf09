"""What a broker and the processes that check its logs say to each other: pickles behind their length."""

import pickle
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import Final

from highwater.storage.log_config import LogConfig

LENGTH: Final = Struct(">I")


@dataclass(frozen=True, slots=True)
class RecoveryJob:
    """A log to be checked from its recovery point on, and what the checkpoints of its log dir say."""

    folder: Path
    config: LogConfig
    now_ms: int
    recovery_point: int
    log_start_offset: int
    first_dirty_offset: int
    unchecked_bytes: int


@dataclass(frozen=True, slots=True)
class RecoveryOutcome:
    """What became of a job."""

    checked_bytes: int = 0
    notes: tuple[str, ...] = ()
    failure: str | None = None
    """Why the log could not be checked here; the broker tries it itself, and says what is wrong."""


def encode(message: RecoveryJob | RecoveryOutcome) -> bytes:
    """Return a message as it goes over a pipe."""
    data = pickle.dumps(message)
    return LENGTH.pack(len(data)) + data
