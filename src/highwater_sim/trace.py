"""The timeline of a simulation: every change of leader, epoch, log end and watermark, and every fault.

It is the step table of the textbooks, made by the running system: as text, or as a page. Its hash tells two runs apart.
"""

from __future__ import annotations

import html
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

    from highwater.broker.partition import Partition
    from highwater_sim.machine import Machine

_STYLE: Final = """
:root { color-scheme: light dark }
body { font: 13px/1.4 system-ui, sans-serif; margin: 2em; background: Canvas; color: CanvasText }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
td, th { padding: 1px 8px; border: 1px solid #8884 }
th { position: sticky; top: 0; background: Canvas } .leader { background: #2a72 } .fault td { background: #c332 }
"""


class Line(NamedTuple):
    """One change of one replica, or a fault (then `broker` is 0)."""

    at: float
    broker: int
    what: str
    leads: bool = False


class Trace:
    """Keeps lines if it is asked to, and their hash always."""

    def __init__(self, *, keep: bool = False) -> None:
        self._hash = sha256()
        self._keep = keep
        self.lines: list[Line] = []

    def replica(self, at: float, machine: Machine, partition: Partition) -> None:
        """Note how a replica stands."""
        role = "leads" if partition.leads else f"follows {partition.leader}"
        self._note(
            Line(
                at,
                machine.broker_id,
                f"{partition.name} {role} epoch={partition.leader_epoch} "
                f"leo={partition.log.log_end_offset} hw={partition.high_watermark}",
                partition.leads,
            )
        )

    def note(self, at: float, what: str) -> None:
        """Note a fault, or what else concerns nobody alone."""
        self._note(Line(at, 0, what))

    def _note(self, line: Line) -> None:
        self._hash.update(f"{line.at:.9f} {line.broker} {line.what}\n".encode())
        if self._keep:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        """What two runs of one seed have in common."""
        return self._hash.hexdigest()

    def write(self, path: Path, *, title: str) -> None:
        """Write the timeline: as a page if the name ends with html, else as text."""
        brokers = sorted({line.broker for line in self.lines if line.broker})
        text = self._page(title, brokers) if path.suffix == ".html" else self._text(title, brokers)
        path.write_text(text, encoding="utf-8")

    def _text(self, title: str, brokers: list[int]) -> str:
        width = max((len(line.what) for line in self.lines if line.broker), default=0) + 2
        head = f"{'time':>10}  " + "".join(f"broker {broker}".ljust(width) for broker in brokers)
        rows = [title, "", head.rstrip()]
        for line in self.lines:
            if line.broker:
                indent = " " * (width * brokers.index(line.broker))
                rows.append(f"{line.at:10.4f}  {indent}{line.what}")
            else:
                rows.append(f"{line.at:10.4f}  -- {line.what}")
        return "\n".join(rows) + "\n"

    def _page(self, title: str, brokers: list[int]) -> str:
        rows = []
        for line in self.lines:
            what = html.escape(line.what)
            if line.broker:
                kind = ' class="leader"' if line.leads else ""
                cells = "".join(f"<td{kind}>{what}</td>" if b == line.broker else "<td></td>" for b in brokers)
                rows.append(f"<tr><td>{line.at:.4f}</td>{cells}</tr>")
            else:
                rows.append(f'<tr class="fault"><td>{line.at:.4f}</td><td colspan="{len(brokers)}">{what}</td></tr>')
        heads = "".join(f"<th>broker {broker}</th>" for broker in brokers)
        return (
            f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{html.escape(title)}</title>'
            f"<style>{_STYLE}</style><h1>{html.escape(title)}</h1>"
            f"<table><tr><th>time (s)</th>{heads}</tr>{''.join(rows)}</table></html>\n"
        )
