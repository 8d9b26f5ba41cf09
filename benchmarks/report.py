"""The outcome of a run: JSON for machines, a Markdown table for people."""

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from benchmarks.measuring import Effort, Line, Metric

START_MARK: Final = "<!-- results -->"
END_MARK: Final = "<!-- /results -->"

Results = Mapping[str, tuple[Line[Any], Sequence[Metric]]]


def machine() -> dict[str, str]:
    """Say what the run ran on."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    gigabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return {
        "cpu": cpu,
        "cores": str(os.cpu_count()),
        "memory": f"{gigabytes:.0f} GB",
        "kernel": platform.release(),
        "python": platform.python_version(),
        "java": java.partition("\n")[0],
        "kafka": "4.1.0",
    }


def as_json(results: Results, effort: Effort) -> str:
    """Return every figure of every round."""
    lines: list[dict[str, Any]] = [
        {"line": line.name, "title": line.title, "metrics": [_metric(metric) for metric in metrics]}
        for line, metrics in results.values()
    ]
    return json.dumps({"machine": machine(), "effort": asdict(effort), "lines": lines}, indent=2) + "\n"


def _metric(metric: Metric) -> dict[str, Any]:
    return {**asdict(metric), "ratio": metric.ratio, "is_met": metric.is_met}


def as_markdown(results: Results, effort: Effort) -> str:
    """Return the table: medians, the spread between rounds, the ratio and its target."""
    where = machine()
    setting = (
        f"{where['cpu']}, {where['cores']} cores, {where['memory']}, Linux {where['kernel']}, "
        f"Python {where['python']}, {where['java']}, Apache Kafka {where['kafka']}; "
        f"{effort.rounds} rounds of {effort.seconds:g} s, in turns."
    )
    head = [
        setting,
        "",
        "| line | figure | Highwater | against | | ratio | target | met |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    rows = [
        f"| {line.title} | {metric.name} | {_spread(metric.ours, metric.unit)} | {line.rival} "
        f"| {_spread(metric.theirs, metric.unit)} | {metric.ratio:.2f} | {metric.target} | {_verdict(metric)} |"
        for line, metrics in results.values()
        for metric in metrics
    ]
    return "\n".join([*head, *rows]) + "\n"


def publish(table: str, page: Path) -> None:
    """Put the table into a page, between its two marks."""
    before, start, rest = page.read_text(encoding="utf-8").partition(START_MARK)
    _, end, after = rest.partition(END_MARK)
    assert start, f"{page} has no mark for results"
    assert end, f"{page} has no mark for the end of results"
    page.write_text(f"{before}{start}\n{table}{end}{after}", encoding="utf-8")


def _spread(values: Sequence[float], unit: str) -> str:
    """The median, and the smallest and largest of the rounds."""
    if not values:
        return "-"
    low, middle, high = min(values), statistics.median(values), max(values)
    if low == high:
        return f"{_figure(middle)} {unit}"
    return f"{_figure(middle)} {unit} ({_figure(low)}-{_figure(high)})"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _verdict(metric: Metric) -> str:
    if not str(metric.target):
        return ""
    return "yes" if metric.is_met else "**no**"
