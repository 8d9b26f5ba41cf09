"""The same seed is the same simulation, to the last bit, in whatever process it runs."""

import os
import subprocess
import sys

from highwater_sim.profile import Profile
from highwater_sim.simulation import Report, Simulation

SEED = 9
SECONDS = 6.0


def simulated(seed: int) -> Report:
    return Simulation(seed, Profile.drawn(seed, seconds=SECONDS)).run()


def test_two_runs_of_one_seed_are_the_same() -> None:
    first, second = simulated(SEED), simulated(SEED)
    assert first.passed
    assert first.trace.digest == second.trace.digest
    assert first.history == second.history
    assert first.trace.digest != simulated(SEED + 1).trace.digest


def test_another_process_with_other_hashes_runs_the_same() -> None:
    """Sets of text are ordered by hashes that every process draws anew: nothing may depend on that."""
    command = [sys.executable, "-c", f"import test_determinism as t; print(t.simulated({SEED}).trace.digest)"]
    digests = set()
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.path.dirname(__file__)}  # noqa: PTH120
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
        digests.add(done.stdout.strip())
    assert digests == {simulated(SEED).trace.digest}
