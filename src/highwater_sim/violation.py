"""How a simulation ends early."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from highwater_history.violation import Violation


class Violated(Exception):
    """Ends a simulation at the first violation."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(str(violation))
        self.violation = violation
