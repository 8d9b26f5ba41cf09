"""One thing that is wrong with a file."""

from pathlib import Path
from typing import NamedTuple


class Finding(NamedTuple):
    """What is wrong, and where; position and offset where they make sense."""

    file: Path
    problem: str
    position: int | None = None
    offset: int | None = None
    is_repaired_on_start: bool = False
    """What a crash may leave behind and the next start removes: worth telling, and no fault."""
