"""Incremental fetch sessions (KIP-227): a reader names its partitions once, then only what changes.

A bounded cache: when it is full, the session that has been idle longest gives way if it has been idle long enough;
otherwise the new reader is served without a session, which is always correct.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from highwater.broker.fetch_interest import FetchInterest
from highwater.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from highwater.broker.appends import Appends

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1
MIN_IDLE_BEFORE_EVICTION_S: Final = 120.0


class FetchSession(FetchInterest):
    """One reader's followed partitions, and the epoch that its next request must carry."""

    __slots__ = ("id", "last_used_at", "next_epoch", "uses_topic_ids")

    outlives_fetch = True

    def __init__(self, appends: Appends, session_id: int, *, uses_topic_ids: bool, now: float) -> None:
        super().__init__(appends)
        self.id = session_id
        self.next_epoch = 1
        self.uses_topic_ids = uses_topic_ids
        self.last_used_at = now


class FetchSessions:
    """The cache of sessions, the least recently used first."""

    __slots__ = ("_appends", "_by_id", "_max_sessions", "_new_id", "_now")

    def __init__(
        self, appends: Appends, *, max_sessions: int, new_id: Callable[[], int], now: Callable[[], float]
    ) -> None:
        self._appends = appends
        self._max_sessions = max_sessions
        self._new_id = new_id
        self._now = now
        self._by_id: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._by_id)

    def begin(self, *, uses_topic_ids: bool) -> FetchSession | None:
        """Return a new session, or None if there is no room for one."""
        now = self._now()
        if len(self._by_id) >= self._max_sessions and not self._evict_idle(now):
            return None
        session_id = self._new_id()
        while session_id == NO_SESSION or session_id in self._by_id:
            session_id = self._new_id()
        session = self._by_id[session_id] = FetchSession(
            self._appends, session_id, uses_topic_ids=uses_topic_ids, now=now
        )
        return session

    def resume(self, session_id: int, epoch: int, *, uses_topic_ids: bool) -> FetchSession:
        """Return the session that an incremental request continues."""
        session = self._by_id.get(session_id)
        if session is None:
            raise KafkaError(f"no fetch session {session_id}", code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if epoch != session.next_epoch:
            raise KafkaError(
                f"fetch session {session_id} is at epoch {session.next_epoch}, not {epoch}",
                code=ErrorCode.INVALID_FETCH_SESSION_EPOCH,
            )
        if session.uses_topic_ids is not uses_topic_ids:
            raise KafkaError(
                f"fetch session {session_id} names topics the other way", code=ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR
            )
        session.next_epoch = 1 if epoch == MAX_EPOCH else epoch + 1
        session.last_used_at = self._now()
        # Moved to the end: the dict is in the order of last use.
        self._by_id[session_id] = self._by_id.pop(session_id)
        return session

    def end(self, session_id: int) -> None:
        """Forget a session, if it is known."""
        session = self._by_id.pop(session_id, None)
        if session is not None:
            session.close()

    def _evict_idle(self, now: float) -> bool:
        oldest = next(iter(self._by_id.values()), None)
        if oldest is None or now - oldest.last_used_at < MIN_IDLE_BEFORE_EVICTION_S:
            return False
        self.end(oldest.id)
        return True
