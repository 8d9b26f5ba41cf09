"""Wait for a condition instead of sleeping for a while."""

import time
from collections.abc import Callable
from typing import Final

PATIENCE_SECONDS: Final = 60.0
"""How long to wait for what takes milliseconds; it only ends a test that has failed already."""

_PAUSE_SECONDS: Final = 0.02


def wait_until(condition: Callable[[], bool], what: str = "it", *, timeout_seconds: float = PATIENCE_SECONDS) -> None:
    """Return as soon as `condition()` holds; give up with an AssertionError that names `what`."""
    deadline = time.monotonic() + timeout_seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true within {timeout_seconds:g} s")
        time.sleep(_PAUSE_SECONDS)
