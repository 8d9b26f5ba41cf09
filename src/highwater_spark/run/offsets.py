"""Which records a micro-batch covers: Spark notes it in the checkpoint before the micro-batch runs."""

import json
from collections.abc import Mapping
from typing import Any

from highwater_spark.run.state import Folder

Range = tuple[int, int]  # from inclusive to exclusive
Ranges = dict[tuple[str, int], Range]  # (topic, partition) -> range


def planned_batch(query: Folder) -> tuple[int, Ranges]:
    """Return the last micro-batch that a query planned, and the records it covers."""
    numbers = sorted(int(name) for name in query.folder("offsets").names() if name.isdigit())
    if not numbers:
        return -1, {}
    last = numbers[-1]
    ends = _offsets(query.folder("offsets").read(str(last)))
    starts = _offsets(query.folder("offsets").read(str(last - 1))) if last else _initial(query)
    return last, {place: (starts.get(place, 0), end) for place, end in ends.items()}


def end_offsets(query: Folder, number: int) -> dict[tuple[str, int], int]:
    """Return up to where, exclusive, a micro-batch reads each partition."""
    return _offsets(query.folder("offsets").read(str(number)))


def _initial(query: Folder) -> dict[tuple[str, int], int]:
    """Return where the sources began; each noted it at its very first start."""
    sources = query.folder("sources")
    found: dict[tuple[str, int], int] = {}
    for name in sources.names():
        found.update(_offsets(sources.folder(name).read("0")))
    return found


def _offsets(text: str | None) -> dict[tuple[str, int], int]:
    """Return the offsets of all sources in a file: one line of JSON each, after a version and other lines."""
    found: dict[tuple[str, int], int] = {}
    for line in (text or "").splitlines():
        start = line.find("{")
        content = json.loads(line[start:]) if start >= 0 else None
        if isinstance(content, dict):
            found.update(flattened(content))
    return found


def flattened(content: Mapping[str, Any]) -> dict[tuple[str, int], int]:
    """Return Spark's JSON of offsets, topic by topic, as one mapping; the file's other JSON has none."""
    return {
        (topic, int(partition)): offset
        for topic, partitions in content.items()
        if isinstance(partitions, dict) and all(name.isdigit() for name in partitions)
        for partition, offset in partitions.items()
    }
