"""What the demo shows while it runs: rates as curves, totals, and one bar for each partition."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Final

from rich.align import Align
from rich.columns import Columns
from rich.console import Group
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from highwater.cli.demo_load import TOPIC
from highwater.cli.figures import MIB, short_count
from highwater.cli.output import counted

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import RenderableType

    from highwater.cli.demo_load import Ledger, Load

BARS: Final = " ▁▂▃▄▅▆▇█"
CURVE_HEIGHT: Final = 4
CURVE_WIDTH: Final = 34
SAMPLE_SECONDS: Final = 0.4
MEMBER_COLOURS: Final = ("green", "magenta", "yellow")


class Curve:
    """The rate of one side over the last seconds."""

    def __init__(self) -> None:
        self.rates: deque[float] = deque(maxlen=CURVE_WIDTH)
        self._last: tuple[float, int] | None = None

    def sample(self, total: int) -> None:
        """Take the total so far; two of them make a rate."""
        now = time.monotonic()
        if self._last is None or now - self._last[0] >= SAMPLE_SECONDS:
            if self._last is not None:
                self.rates.append((total - self._last[1]) / (now - self._last[0]))
            self._last = (now, total)

    @property
    def rate(self) -> float:
        """Records a second, by the newest sample."""
        return self.rates[-1] if self.rates else 0.0


def draw_curve(rates: list[float], *, height: int, width: int, top: float) -> list[str]:
    """Return the lines of a chart, upper one first, each `width` wide, in eighths of a character."""
    eighths = [round(min(rate / top, 1) * height * 8) if top else 0 for rate in rates]
    lines = []
    for row in reversed(range(height)):
        line = "".join(BARS[max(0, min(8, value - row * 8))] for value in eighths)
        lines.append(line.rjust(width))
    return lines


class Screen:
    """Draws the state of the load; every frame is made anew from its ledgers."""

    def __init__(self, load: Load, headline: str, seconds: float, memory: Callable[[], str]) -> None:
        self._load = load
        self._headline = headline
        self._memory = memory
        self._seconds = seconds
        self._started = time.monotonic()
        self._written, self._read = Curve(), Curve()

    def sample(self) -> None:
        """Take the figures of now."""
        self._written.sample(self._load.written.total)
        self._read.sample(self._load.read.total)

    def __rich__(self) -> RenderableType:
        top = max((*self._written.rates, *self._read.rates), default=1.0)
        sides = Columns(
            [
                _side("written", "cyan", self._load.written, self._written, top),
                _side("read", "green", self._load.read, self._read, top),
            ]
        )
        elapsed = min(time.monotonic() - self._started, self._seconds)
        clock = Table.grid(padding=(0, 1))
        clock.add_row(
            ProgressBar(total=self._seconds, completed=elapsed, width=40),
            f"{elapsed:4.1f} / {self._seconds:.0f} s",
            f"broker: {self._memory()}",
        )
        return Group(Text.from_markup(self._headline), "", sides, self._partitions(), Align.left(clock))

    def plain_line(self) -> str:
        """Return the same figures as one line, for output that is not a terminal."""
        written, read = self._load.written, self._load.read
        waiting = max(0, written.total - read.total)
        return (
            f"written {written.total:>9,} ({short_count(self._written.rate):>5}/s)   "
            f"read {read.total:>9,} ({short_count(self._read.rate):>5}/s)   "
            f"waiting {waiting:>6,}   readers {len(self._load.members)}"
        )

    def _partitions(self) -> Panel:
        load = self._load
        colours = dict(zip((member.name for member in load.members), MEMBER_COLOURS, strict=False))
        table = Table.grid(padding=(0, 2))
        most = max(*load.written.counts, 1)
        for partition, (written, read) in enumerate(zip(load.written.counts, load.read.counts, strict=True)):
            owner = load.owner_of(partition)
            colour = colours.get(owner or "", "bright_black")
            bar = ProgressBar(
                total=most, completed=min(read, most), width=26, complete_style=colour, finished_style=colour
            )
            shown = Text(owner or "changing hands", style=colour)
            table.add_row(f"partition {partition}", bar, f"{read:>7,} of {max(written, read):>7,}", shown)
        title = f"{TOPIC}, shared by {counted(len(load.members), 'reader')}"
        return Panel(table, title=title, title_align="left", border_style="bright_black", expand=False)


def _side(name: str, colour: str, ledger: Ledger, curve: Curve, top: float) -> Panel:
    chart = draw_curve(list(curve.rates), height=CURVE_HEIGHT, width=CURVE_WIDTH, top=top)
    figures = Text.assemble(
        (f"{ledger.total:,}", "bold"), " records  ", (f"{short_count(curve.rate)}/s", f"bold {colour}"),
        f"  {ledger.size_bytes / MIB:.1f} MiB",
    )  # fmt: skip
    return Panel(
        Group(Text("\n".join(chart), style=colour), figures), title=name, title_align="left", border_style=colour
    )
