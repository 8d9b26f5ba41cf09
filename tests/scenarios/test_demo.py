"""The demo is a promise: it runs, it proves what it says, it ends by itself."""

import subprocess
import sys


def test_the_demo_reads_all_that_it_wrote_and_ends_well() -> None:
    outcome = subprocess.run(
        [sys.executable, "-m", "highwater", "demo", "--seconds", "2", "--no-pipeline"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert outcome.returncode == 0, outcome.stderr
    assert "each one once, in order, byte for byte" in outcome.stdout
    assert "killed (kill -9) while a producer wrote" in outcome.stdout
    assert "every one is there, once, in order" in outcome.stdout
    assert outcome.stderr == ""
