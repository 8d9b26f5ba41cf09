"""The simulator bites: each deliberate bug is found, within a stated number of seeds."""

from dataclasses import replace
from typing import NamedTuple

import pytest

from highwater_sim.bugs import BUGS, planted
from highwater_sim.profile import Profile
from highwater_sim.simulation import Simulation


class Hunt(NamedTuple):
    """How a bug is brought to light, and within how many seeds."""

    faults: tuple[str, ...]
    seeds: int
    seconds: float = 15.0
    is_busy: bool = True
    """Whether there is nothing but many writes; otherwise the seed draws what else clients do."""
    request_pause_s: float = 0.05
    """How many writes: what goes wrong within milliseconds needs more of them."""
    has_two_log_dirs: bool = False


FOUND = {
    "truncate-by-watermark": Hunt(("kill",), 4),
    "ignore-epoch-in-fetch": Hunt(("partition", "kill"), 4),
    "count-after-commit": Hunt(("usurp", "slow-network"), 6, request_pause_s=0.01),
    "ack-before-commit": Hunt(("kill", "partition"), 4),
    "expand-below-epoch-start": Hunt(("kill",), 4),
    "serve-uncommitted": Hunt(("kill", "partition"), 6),
    "same-epoch": Hunt(("kill",), 3),
    "unclean-election": Hunt(("kill", "pause"), 6),
    "trust-the-bounced": Hunt(("bounce",), 4),
    "old-controller": Hunt(("usurp",), 2),
    "shrink-by-itself": Hunt(("store-cut", "pause"), 3),
    "no-fsync": Hunt(("power",), 2),
    "no-producer-rebuild": Hunt(("kill-all", "slow-network"), 2),
    "copy-what-is-damaged": Hunt(("bit-flip",), 6, is_busy=False),
    "move-unsynced": Hunt(("power",), 6, has_two_log_dirs=True),
    "believe-everything": Hunt(("power",), 2, is_busy=False),
    "assign-before-release": Hunt(("slow-network",), 4, is_busy=False),
}


def busy(profile: Profile, hunt: Hunt) -> Profile:
    """Return a profile with many writes and nothing beside them, so that only the seed and the faults differ."""
    return replace(
        profile,
        request_pause_s=hunt.request_pause_s,
        average_pause_s=1.5,
        group_members=0,
        modern_members=0,
        transactional_producers=(),
        transformers=0,
        has_administrator=False,
        grows=False,
        has_two_log_dirs=hunt.has_two_log_dirs,
        trims=False,
        adds_broker=False,
    )


def test_every_bug_is_looked_for() -> None:
    assert FOUND.keys() == BUGS.keys()


@pytest.mark.parametrize("bug", sorted(FOUND))
def test_a_planted_bug_is_found(bug: str) -> None:
    hunt = FOUND[bug]
    with planted(bug):
        for seed in range(1, hunt.seeds + 1):
            profile = Profile.drawn(seed, faults=hunt.faults, seconds=hunt.seconds)
            report = Simulation(seed, busy(profile, hunt) if hunt.is_busy else profile).run()
            if report.violations:
                return
    pytest.fail(f"{hunt.seeds} seeds did not find {bug}")
