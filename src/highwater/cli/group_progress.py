"""How a group is doing, judged from two looks at its offsets: keeping up, slow, stuck or gone."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

Place = tuple[str, int]
"""Topic and partition."""


class Verdict(StrEnum):
    """What an operator wants to know first."""

    KEEPING_UP = "keeping up"
    SLOW = "slow"
    STUCK = "stuck"
    GONE = "gone"


@dataclass(frozen=True, slots=True)
class Progress:
    """One partition as its group sees it; `committed` is None until the group has committed there."""

    committed: int | None
    latest: int

    @property
    def lag(self) -> int | None:
        """Records that wait to be read, or None when the group never committed."""
        return None if self.committed is None else max(0, self.latest - self.committed)


def total_lag(progress: Mapping[Place, Progress]) -> int:
    """Return the records that wait over all partitions."""
    return sum(one.lag or 0 for one in progress.values())


def unmoved(before: Mapping[Place, Progress], after: Mapping[Place, Progress]) -> list[Place]:
    """Return the partitions where something waits and nothing was committed between the two looks."""
    return [
        place
        for place, now in after.items()
        if now.lag != 0 and now.latest > 0 and place in before and before[place].committed == now.committed
    ]


def judge(before: Mapping[Place, Progress], after: Mapping[Place, Progress], *, members: int) -> Verdict:
    """Return the verdict on a group.

    The second look is best taken right after a commit, when lag is at its lowest between two commits: a group whose
    lag still grew is losing ground, however its commits are spaced. A partition in which a group never committed says
    nothing: its reader may be at the end of it, waiting.
    """
    if not members:
        return Verdict.GONE
    if any(after[place].lag for place in unmoved(before, after)):
        return Verdict.STUCK
    return Verdict.SLOW if total_lag(after) > total_lag(before) else Verdict.KEEPING_UP
