"""What checkers find."""

from __future__ import annotations

from typing import NamedTuple


class Violation(NamedTuple):
    """An invariant that does not hold, and how that was seen."""

    invariant: str
    what: str
    at: float = -1.0

    def __str__(self) -> str:
        when = f" at {self.at:.3f} s" if self.at >= 0 else ""
        return f"{self.invariant}{when}: {self.what}"
