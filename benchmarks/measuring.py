"""What a line of the table is: two brokers, measured in turns, and what their ratio should be."""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.brokers import Broker


@dataclass(frozen=True, slots=True)
class Target:
    """Which ratio, ours to theirs, is good enough."""

    at_least: float | None = None
    at_most: float | None = None

    def is_met(self, ratio: float) -> bool:
        """Whether `ratio` is good enough."""
        return (self.at_least is None or ratio >= self.at_least) and (self.at_most is None or ratio <= self.at_most)

    def __str__(self) -> str:
        if self.at_least is not None:
            return f"≥ {self.at_least:g}"
        return f"≤ {self.at_most:.3g}" if self.at_most is not None else ""


@dataclass(slots=True)
class Metric:
    """One figure of a line, once per round for each broker."""

    name: str
    unit: str
    target: Target
    ours: list[float] = field(default_factory=list)
    theirs: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """The median of ours over the median of theirs."""
        if not self.ours or not self.theirs:
            return math.nan
        return statistics.median(self.ours) / statistics.median(self.theirs)

    @property
    def is_met(self) -> bool:
        """Whether the target is met."""
        return self.target.is_met(self.ratio)


@dataclass(frozen=True, slots=True)
class Effort:
    """How long to measure."""

    rounds: int
    seconds: float
    warm_up_seconds: float
    scale: float  # of everything that is counted in records or partitions

    def scaled(self, number: int) -> int:
        """Return `number`, smaller in a quick run."""
        return max(1, int(number * self.scale))


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the table."""

    name: str
    title: str
    run: Callable[["Arena"], list[Metric]]
    rival: str = "Apache Kafka"


@dataclass(frozen=True, slots=True)
class Arena:
    """Where a line is run: the two brokers, which are both up, and the means to start others."""

    ours: Broker
    theirs: Broker
    effort: Effort
    directory: Path
    say: Callable[[str], None]

    @property
    def brokers(self) -> tuple[Broker, Broker]:
        """Both, ours first."""
        return self.ours, self.theirs

    def alternate(self, metrics: Sequence[Metric], measure: Callable[[Broker], Mapping[str, float]]) -> list[Metric]:
        """Measure A, B, A, B, ...; the first turn of each is thrown away, for it warms up."""
        for number in range(self.effort.rounds + 1):
            for broker in self.brokers:
                figures = measure(broker)
                shown = ", ".join(f"{metric.name} {figures[metric.name]:,.4g} {metric.unit}" for metric in metrics)
                self.say(f"    {'warm-up' if number == 0 else f'round {number}'}  {broker.name:<13} {shown}")
                if number:
                    record(metrics, figures, are_ours=broker is self.ours)
        return list(metrics)


def record(metrics: Sequence[Metric], figures: Mapping[str, float], *, are_ours: bool) -> None:
    """Add one round's figures to their metrics."""
    for metric in metrics:
        (metric.ours if are_ours else metric.theirs).append(figures[metric.name])
