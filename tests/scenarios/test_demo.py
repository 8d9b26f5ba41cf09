"""The demo is a promise: it runs, it proves what it says, it ends by itself."""

import io
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from highwater.cli.demo_pipeline import show_kills
from highwater.testing.cluster import ClusterProcesses

JARS = Path(__file__).parents[2] / ".tools" / "spark"


def test_the_demo_reads_all_that_it_wrote_and_ends_well() -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "highwater", "demo", "--seconds", "2", "--no-pipeline"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "records read by 3 readers: each one once, in order, byte for byte" in outcome.stdout
    assert "killed (kill -9) while a producer wrote" in outcome.stdout
    assert "every one is there, once, in order" in outcome.stdout
    assert outcome.stderr == ""


@pytest.mark.timeout(600)
def test_its_last_act_kills_a_broker_and_the_driver_of_a_pipeline_and_the_totals_are_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HIGHWATER_SPARK_JARS", str(JARS))
    shown = io.StringIO()
    with ClusterProcesses(3, {"min.insync.replicas": 2}) as cluster:
        show_kills(Console(file=shown, width=200), cluster)
        assert len(cluster.running) == 2
    told = shown.getvalue()
    assert "killed (kill -9) under the pipeline, which goes on" in told
    assert "its driver killed (kill -9)" in told
    assert "each is booked once, and the totals are equal" in told
