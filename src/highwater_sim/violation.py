"""What the checkers find."""

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


class Violated(Exception):
    """Ends a simulation at the first violation."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(str(violation))
        self.violation = violation
