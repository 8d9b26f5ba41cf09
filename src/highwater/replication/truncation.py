"""Where a follower's log and its leader's part ways, found by leader epochs and never by the high watermark.

On every change of the leader's epoch a follower proves that its log is a prefix of the leader's before anything is
appended to it: each fetch names the epoch of the last record that the follower has and the offset behind it. A leader
whose log has no such record says where it knows that epoch, or the one before it, to end (KIP-101, KIP-279, KIP-595);
the follower cuts and asks again, until they agree. Both sides check the epoch of the leader first: an answer from
another one cuts nothing.
"""

from typing import NamedTuple, Protocol

from highwater.model.ids import LeaderEpoch, Offset


class EpochHistory(Protocol):
    """Which leader epochs wrote a log, and where each begins."""

    @property
    def oldest(self) -> int:
        """The oldest epoch that is known; -1 without any."""

    def end_offset(self, epoch: int, *, log_end_offset: int) -> tuple[int, int]:
        """Return the largest epoch at or below `epoch`, and where it ends; (-1, -1) if nothing can be said."""


class EpochEnd(NamedTuple):
    """A leader epoch, and the offset behind its last record."""

    epoch: LeaderEpoch
    end_offset: Offset


def divergence(leader: EpochHistory, leaders_end: Offset, *, last_epoch: int, fetch_offset: int) -> EpochEnd | None:
    """Return what a leader says to a follower whose log is not a prefix of its own; None if it is one.

    The follower has records of `last_epoch` up to `fetch_offset`. That is a prefix if the leader has that epoch, and
    has it at least that far.
    """
    epoch, end_offset = leader.end_offset(last_epoch, log_end_offset=leaders_end)
    if epoch == last_epoch and fetch_offset <= end_offset:
        return None
    return EpochEnd(LeaderEpoch(epoch), Offset(end_offset))


def has_nothing_in_common(
    leader: EpochHistory, leaders_start: Offset, *, last_epoch: int, followers_start: int, fetch_offset: int
) -> bool:
    """Return whether a follower has records, and none that can be compared with what its leader has left.

    The leader's log begins where the follower's ends, and it has forgotten who wrote what was before. That may have
    been something else than what the follower has, which would be there again after a crash that forgets where a log
    starts.
    """
    return followers_start < fetch_offset == leaders_start and last_epoch < leader.oldest


def truncation_offset(follower: EpochHistory, followers_end: Offset, diverging: EpochEnd) -> Offset:
    """Return where a follower cuts its log after a leader said that `diverging` is what they could agree on.

    If the follower has that epoch too, both have its records up to where the shorter one ends. If it does not, nothing
    it wrote after its own largest epoch below can be the leader's; whether that epoch is, the next fetch shows.
    """
    epoch, own_end = follower.end_offset(diverging.epoch, log_end_offset=followers_end)
    agreed = followers_end if epoch < 0 else Offset(min(followers_end, own_end))
    return min(agreed, diverging.end_offset)
