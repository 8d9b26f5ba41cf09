"""A broker whose clock is wrong when it is told to: `python -m highwater.testing.skewed_clock serve ...`.

set_clock(broker.data_dir, seconds=-3600)      # from now on it is an hour ago there
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

MODULE: Final = "highwater.testing.skewed_clock"
LOOK_SECONDS: Final = 0.05
_LOG_DIRS: Final = "log.dirs="


def set_clock(log_dir: Path, *, seconds: float) -> None:
    """Let the wall clock of the broker of a log dir be off by this much; it jumps if the broker is running."""
    new = _file(log_dir).with_suffix(".new")
    new.write_text(str(round(seconds * 1000)), encoding="ascii")
    new.replace(_file(log_dir))


def _file(log_dir: Path) -> Path:
    return log_dir.with_name(log_dir.name + ".clock")


def skewed_clock(log_dir: Path) -> Callable[[], int]:
    """Return a wall clock in milliseconds that is off by what the file says, which is looked at now and then."""
    file, offset_ms, looked_at = _file(log_dir), 0, 0.0

    def now_ms() -> int:
        nonlocal offset_ms, looked_at
        if time.monotonic() - looked_at > LOOK_SECONDS:
            looked_at = time.monotonic()
            offset_ms = int(file.read_text(encoding="ascii")) if file.exists() else 0
        return time.time_ns() // 1_000_000 + offset_ms

    return now_ms


def main() -> int:
    """Serve by this clock."""
    from highwater.app.serve import main as serve
    from highwater.app.world import World

    arguments = sys.argv[2:]
    given = [each.removeprefix(_LOG_DIRS) for each in arguments if each.startswith(_LOG_DIRS)]
    return serve(arguments, World(now_ms=skewed_clock(Path(given[-1]))))


if __name__ == "__main__":
    sys.exit(main())
