"""Where metrics get their values: cells that the hot path adds to, and callbacks that are asked at a scrape."""

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeAlias

from highwater.metrics.declared import METRICS
from highwater.metrics.metric import Kind, Metric

Labels: TypeAlias = tuple[str, ...]
Sample: TypeAlias = tuple[Labels, float]

_FIRST_BUCKET_US: Final = 64
_FIRST_BUCKET_BITS: Final = 6
_BUCKETS: Final = 20
_ALL_DOUBLINGS: Final = 64  # room for any 64-bit duration, so that counting needs no bounds check
BUCKET_BOUNDS_US: Final = tuple(_FIRST_BUCKET_US << power for power in range(_BUCKETS))
"""64 us, doubling up to 34 s; what takes longer still is in one bucket more."""


class Cell:
    """A number that its owner changes in place: `cell.value += 1` is all the hot path pays."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value = 0


class Histogram:
    """Counts of durations in buckets that double; the bucket is found with two integer operations, not a search."""

    __slots__ = ("counts", "total_us")

    def __init__(self) -> None:
        self.counts = [0] * _ALL_DOUBLINGS
        self.total_us = 0

    def observe_us(self, duration_us: int) -> None:
        """Count one duration, in microseconds."""
        self.counts[(duration_us >> _FIRST_BUCKET_BITS).bit_length()] += 1
        self.total_us += duration_us


class Registry:
    """The values of all metrics of one broker.

    Text is made only when someone asks for it, and in pieces: ten thousand partitions must not hold up the loop.
    The format is Prometheus's text format 0.0.4; writing it takes less code, and far less memory, than its client
    library, whose counters are objects with locks that the hot path would have to go through.
    """

    __slots__ = ("_callbacks", "_cells", "_histograms")

    def __init__(self) -> None:
        self._cells: dict[Metric, dict[Labels, Cell]] = {}
        self._histograms: dict[Metric, dict[Labels, Histogram]] = {}
        self._callbacks: dict[Metric, Callable[[], Iterable[Sample]]] = {}

    def cell(self, metric: Metric, *labels: str) -> Cell:
        """Return the cell of a counter or gauge with these label values; the same one each time."""
        assert metric.kind is not Kind.HISTOGRAM, f"{metric.name} is a histogram"
        assert len(labels) == len(metric.labels), f"{metric.name} has the labels {metric.labels}"
        return self._cells.setdefault(metric, {}).setdefault(labels, Cell())

    def histogram(self, metric: Metric, *labels: str) -> Histogram:
        """Return the histogram with these label values; the same one each time."""
        assert metric.kind is Kind.HISTOGRAM, f"{metric.name} is a {metric.kind.value}"
        assert len(labels) == len(metric.labels), f"{metric.name} has the labels {metric.labels}"
        return self._histograms.setdefault(metric, {}).setdefault(labels, Histogram())

    def ask(self, metric: Metric, read: Callable[[], Iterable[Sample]]) -> None:
        """At each scrape, ask `read` for the metric's values."""
        assert metric.kind is not Kind.HISTOGRAM, f"{metric.name} is a histogram"
        assert metric not in self._callbacks, f"{metric.name} has a source already"
        self._callbacks[metric] = read

    def ask_one(self, metric: Metric, read: Callable[[], float]) -> None:
        """At each scrape, ask `read` for the one value of a metric without labels."""
        assert not metric.labels, f"{metric.name} has the labels {metric.labels}"
        self.ask(metric, lambda: (((), read()),))

    def without_source(self) -> list[str]:
        """Return the declared metrics that nothing feeds: a broker that is up has none."""
        fed = self._cells.keys() | self._histograms.keys() | self._callbacks.keys()
        return [metric.name for metric in METRICS if metric not in fed]

    def render(self) -> Iterator[str]:
        """Yield the text that Prometheus reads, a line or a few at a time."""
        for metric in METRICS:
            lines = self._lines(metric)
            first = next(lines, None)
            if first is None:
                continue
            yield f"# HELP {metric.name} {metric.doc}\n# TYPE {metric.name} {metric.kind.value}\n"
            yield first
            yield from lines

    def _lines(self, metric: Metric) -> Iterator[str]:
        for labels, histogram in list(self._histograms.get(metric, {}).items()):
            yield _histogram_lines(metric, labels, histogram)
        for labels, cell in list(self._cells.get(metric, {}).items()):
            yield f"{metric.name}{_label_text(metric.labels, labels)} {cell.value}\n"
        if (read := self._callbacks.get(metric)) is not None:
            for labels, value in read():
                yield f"{metric.name}{_label_text(metric.labels, labels)} {value}\n"


def _histogram_lines(metric: Metric, labels: Labels, histogram: Histogram) -> str:
    lines: list[str] = []
    names = (*metric.labels, "le")
    so_far = 0
    for count, bound_us in zip(histogram.counts, BUCKET_BOUNDS_US, strict=False):
        so_far += count
        lines.append(f"{metric.name}_bucket{_label_text(names, (*labels, f'{bound_us / 1e6:g}'))} {so_far}\n")
    so_far += sum(histogram.counts[_BUCKETS:])
    label_text = _label_text(metric.labels, labels)
    lines.extend(
        (
            f"{metric.name}_bucket{_label_text(names, (*labels, '+Inf'))} {so_far}\n",
            f"{metric.name}_sum{label_text} {histogram.total_us / 1e6}\n",
            f"{metric.name}_count{label_text} {so_far}\n",
        )
    )
    return "".join(lines)


def _label_text(names: tuple[str, ...], values: Labels) -> str:
    if not names:
        return ""
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in zip(names, values, strict=True)) + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
