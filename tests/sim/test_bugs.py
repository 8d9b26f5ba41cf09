"""The simulator bites: each deliberate bug is found, within a stated number of seeds."""

import pytest

from highwater_sim.bugs import BUGS, planted
from highwater_sim.profile import Profile
from highwater_sim.simulation import Simulation

SECONDS = 15.0

FOUND: dict[str, tuple[tuple[str, ...], int]] = {
    "truncate-by-watermark": (("kill",), 4),
    "ignore-epoch-in-fetch": (("partition", "kill"), 4),
    "count-after-commit": (("kill", "pause"), 5),
    "ack-before-commit": (("kill", "partition"), 4),
    "expand-below-epoch-start": (("kill",), 4),
    "serve-uncommitted": (("kill", "partition"), 6),
    "same-epoch": (("kill",), 3),
    "unclean-election": (("kill", "pause"), 6),
    "trust-the-bounced": (("power-one", "wipe"), 4),
    "old-controller": (("usurp",), 2),
    "shrink-by-itself": (("partition", "store-cut"), 4),
    "no-fsync": (("power",), 2),
    "no-producer-rebuild": (("kill-all", "reset", "slow-network"), 2),
    "believe-everything": (("power",), 2),
}
"""The faults that bring each bug to light, and within how many seeds they do."""


def test_every_bug_is_looked_for() -> None:
    assert FOUND.keys() == BUGS.keys()


@pytest.mark.parametrize("bug", sorted(FOUND))
def test_a_planted_bug_is_found(bug: str) -> None:
    faults, seeds = FOUND[bug]
    with planted(bug):
        for seed in range(1, seeds + 1):
            report = Simulation(seed, Profile.drawn(seed, faults=faults, seconds=SECONDS)).run()
            if report.violations:
                return
    pytest.fail(f"{seeds} seeds did not find {bug}")
