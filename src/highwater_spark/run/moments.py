"""Times as users write them."""

import re
import time
from datetime import UTC, datetime
from typing import Final

from highwater_spark.errors import PipelineError

_AGO: Final = re.compile(r"(\d{1,9})([smhd])")
_UNIT_MS: Final = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


def parse_time(text: str) -> int:
    """Return a moment in milliseconds since 1970: given as such, as 2026-01-31T10:00, or as how long ago (30s, 15m)."""
    if ago := _AGO.fullmatch(text):
        return int(time.time() * 1000) - int(ago[1]) * _UNIT_MS[ago[2]]
    if text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise PipelineError(f"{text!r} is not a time: write 2026-01-31T10:00, or 15m for 15 minutes ago") from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
