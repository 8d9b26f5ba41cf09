"""What a leader knows of one follower: how far it is, and when it last had everything."""

from typing import Final

from highwater.model.ids import UNKNOWN_OFFSET, Offset

NEVER_MS: Final = -(2**62)
"""Longer ago than any lag that is allowed."""


class RemoteReplica:
    """One follower. It counts as caught up at the last moment at which it is known to have had all that there was."""

    __slots__ = ("_leaders_end_at_fetch", "caught_up_ms", "end_offset", "fetched_ms", "log_start")

    def __init__(self, *, caught_up_ms: int) -> None:
        self.end_offset: Offset = UNKNOWN_OFFSET
        self.caught_up_ms = caught_up_ms
        self.fetched_ms = NEVER_MS
        self.log_start = 0
        self._leaders_end_at_fetch: Offset = UNKNOWN_OFFSET

    def fetched(self, offset: Offset, *, leaders_end: Offset, now_ms: int) -> None:
        """Note a fetch. Asking for an offset is the follower's proof that it has all below it.

        Merely fetching does not count as being caught up: it must have reached the leader's end, or at least what was
        the leader's end when it fetched before. So a follower that is one fetch behind a busy leader is in sync, and
        one that falls further behind with every fetch is not.
        """
        if offset >= leaders_end:
            self.caught_up_ms = now_ms
        elif offset >= self._leaders_end_at_fetch:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        self.end_offset = offset
        self.fetched_ms = now_ms
        self._leaders_end_at_fetch = leaders_end

    def lags(self, leaders_end: Offset, *, now_ms: int, max_lag_ms: int) -> bool:
        """Return whether it lacks something, and was last caught up too long ago."""
        return self.end_offset < leaders_end and now_ms - self.caught_up_ms > max_lag_ms
