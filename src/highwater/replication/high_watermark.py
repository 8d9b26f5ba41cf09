"""The high watermark: the offset below which every record is committed."""

from collections.abc import Iterable

from highwater.model.ids import Offset


def leaders_high_watermark(current: Offset, end_offsets: Iterable[Offset]) -> Offset:
    """Return the offset below which every record is on every replica that counts.

    Invariant: the result never falls below `current`; what was read must not be unread.

    `end_offsets` are those of the maximal in-sync replicas, the leader's own included (see `LeaderState`). Waiting for
    more replicas than we must can only delay the watermark.
    """
    return max(current, min(end_offsets))


def followers_high_watermark(own_start: Offset, own_end: Offset, leaders: Offset) -> Offset:
    """Return how far a follower knows its log to be committed: a fetch later than the leader does.

    It may fall when a new leader has not yet learnt how far its predecessor was. Nothing is decided by a follower's
    watermark: truncation goes by epochs, so a late one costs nothing. But what we have deleted had been committed, even
    if a leader that lost its power has it again.
    """
    return max(own_start, min(own_end, leaders))
