"""How long to try again: pauses that grow, up to a bound."""

import random
import time
from typing import Final

from highwater_spark.errors import BrokerAway

FIRST_PAUSE_SECONDS: Final = 0.01
LONGEST_PAUSE_SECONDS: Final = 0.5


class Patience:
    """Patience with one thing that does not work yet."""

    def __init__(self, seconds: float) -> None:
        self._deadline = time.monotonic() + seconds
        self._seconds = seconds
        self._pause = FIRST_PAUSE_SECONDS

    def wait(self, reason: str) -> None:
        """Pause before the next attempt; raises `BrokerAway` with the reason when patience is at its end."""
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise BrokerAway(f"{reason}; tried for {self._seconds:g} s")
        # Two who wait for each other must not keep step.
        time.sleep(min(self._pause * random.uniform(0.5, 1.0), left))  # noqa: S311 - no secret
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)
