"""Numbers for people: rates, sizes and percentiles."""

from collections.abc import Sequence
from typing import Final

PERCENTILES: Final = (50.0, 95.0, 99.0, 99.9)
MIB: Final = 1024 * 1024


def percentile(ordered: Sequence[float], percent: float) -> float:
    """Return the smallest value that at least `percent` of the ordered values do not exceed (nearest rank)."""
    assert ordered, "there is no percentile of nothing"
    rank = -(-len(ordered) * percent // 100)  # rounded up
    return ordered[max(int(rank), 1) - 1]


def latency_summary(latencies_ms: Sequence[float]) -> dict[str, float]:
    """Return average, percentiles and maximum by name; empty when nothing was measured."""
    if not latencies_ms:
        return {}
    ordered = sorted(latencies_ms)
    summary = {"avg": sum(ordered) / len(ordered)}
    summary |= {f"p{percent:g}": percentile(ordered, percent) for percent in PERCENTILES}
    summary["max"] = ordered[-1]
    return {name: round(value, 3) for name, value in summary.items()}


def short_count(count: float) -> str:
    """Return a count in at most five characters: 999, 12.3k, 1.20M."""
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            scaled = count / size
            return (
                f"{scaled:.2f}{unit}"
                if scaled < 10
                else f"{scaled:.1f}{unit}"
                if scaled < 100
                else f"{scaled:.0f}{unit}"
            )
    return f"{count:.0f}"
