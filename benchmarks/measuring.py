"""What a line of the table is: two brokers, measured in turns, and what their ratio should be."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from benchmarks.brokers import Broker
from benchmarks.clusters import Cluster

STOLEN: Final = "stolen"
"""The name under which a turn says what share of the processors was taken away while it counted."""
CALM: Final = 0.005
MORE_TRIES: Final = 3
SETTLE_SECONDS: Final = 2.0
"""A broker that stood still finds much overdue: this long, it is at its own."""


@dataclass(frozen=True, slots=True)
class Target:
    """Which ratio, ours to theirs, is good enough; or which figure of ours, whatever theirs is."""

    at_least: float | None = None
    at_most: float | None = None
    ours_at_most: float | None = None

    def is_met(self, ours: float, ratio: float) -> bool:
        """Whether our figure and its ratio to theirs are good enough."""
        if self.ours_at_most is not None and ours > self.ours_at_most:
            return False
        return (self.at_least is None or ratio >= self.at_least) and (self.at_most is None or ratio <= self.at_most)

    def __str__(self) -> str:
        if self.ours_at_most is not None:
            return f"ours ≤ {self.ours_at_most:g}"
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
        if not self.ours or not self.theirs or not statistics.median(self.theirs):
            return math.nan
        return statistics.median(self.ours) / statistics.median(self.theirs)

    @property
    def is_met(self) -> bool:
        """Whether the target is met."""
        ours = statistics.median(self.ours) if self.ours else math.nan
        return self.target.is_met(ours, self.ratio)


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


class Rival(Protocol):
    """A broker or a cluster."""

    @property
    def name(self) -> str:
        """Whose it is."""


RivalT = TypeVar("RivalT", bound=Rival)


@dataclass(frozen=True, slots=True)
class Rivals(Generic[RivalT]):
    """Where a line is run: ours and theirs, which are both up, and the means to start others."""

    ours: RivalT
    theirs: RivalT
    effort: Effort
    directory: Path
    say: Callable[[str], None]

    @property
    def both(self) -> tuple[RivalT, RivalT]:
        """Both, ours first."""
        return self.ours, self.theirs

    def alternate(
        self, metrics: Sequence[Metric], measure: Callable[[RivalT], Mapping[str, float]], *, warm_ups: int = 1
    ) -> list[Metric]:
        """Measure A, B, A, B, ...; the first turn of each is thrown away, for it warms up."""
        for number in range(1 - warm_ups, self.effort.rounds + 1):
            for rival in self.both:
                figures = self._undisturbed(rival, measure)
                shown = ", ".join(f"{metric.name} {figures[metric.name]:,.4g} {metric.unit}" for metric in metrics)
                self.say(f"    {'warm-up' if number < 1 else f'round {number}'}  {rival.name:<13} {shown}")
                if number >= 1:
                    record(metrics, figures, are_ours=rival is self.ours)
        return list(metrics)

    def _undisturbed(self, rival: RivalT, measure: Callable[[RivalT], Mapping[str, float]]) -> Mapping[str, float]:
        """Measure again, a few times, while the machine below takes our processors away; keep the calmest turn.

        For lines that say how much was taken: single stalls make their figures.
        """
        calmest = measure(rival)
        for _ in range(MORE_TRIES):
            if calmest.get(STOLEN, 0.0) <= CALM:
                break
            self.say(f"    {calmest[STOLEN]:.1%} of the processors were taken away; once more")
            figures = measure(rival)
            if figures[STOLEN] < calmest[STOLEN]:
                calmest = figures
        return calmest


@dataclass(frozen=True, slots=True)
class Arena(Rivals[Broker]):
    """Two brokers."""

    @property
    def brokers(self) -> tuple[Broker, Broker]:
        """Both, ours first."""
        return self.both

    def alternate_alone(
        self, metrics: Sequence[Metric], measure: Callable[[Broker], Mapping[str, float]]
    ) -> list[Metric]:
        """Measure in turns, each with the processors to itself: the other broker stands still meanwhile."""

        def alone(broker: Broker) -> Mapping[str, float]:
            other = self.theirs if broker is self.ours else self.ours
            with other.paused():
                figures = measure(broker)
            time.sleep(SETTLE_SECONDS)
            return figures

        return self.alternate(metrics, alone)


@dataclass(frozen=True, slots=True)
class ClusterArena(Rivals[Cluster]):
    """Two clusters of three brokers."""


ArenaT = TypeVar("ArenaT", Arena, ClusterArena)


@dataclass(frozen=True, slots=True)
class Line(Generic[ArenaT]):
    """One line of the table."""

    name: str
    title: str
    run: Callable[[ArenaT], list[Metric]]
    rival: str = "Apache Kafka"


def record(metrics: Sequence[Metric], figures: Mapping[str, float], *, are_ours: bool) -> None:
    """Add one round's figures to their metrics."""
    for metric in metrics:
        (metric.ours if are_ours else metric.theirs).append(figures[metric.name])
