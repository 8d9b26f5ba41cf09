"""Why a group rebalanced: every rebalance carries a cause, which is logged and counted."""

from enum import StrEnum
from typing import NamedTuple


class CauseKind(StrEnum):
    """The kinds of cause, as the metric's label shows them."""

    MEMBER_JOINED = "member_joined"
    MEMBER_CHANGED = "member_changed"
    LEADER_REJOINED = "leader_rejoined"
    STATIC_MEMBER_REPLACED = "static_member_replaced"
    MEMBER_LEFT = "member_left"
    SESSION_EXPIRED = "session_expired"
    SYNC_TIMED_OUT = "sync_timed_out"
    REVOCATION_TIMED_OUT = "revocation_timed_out"
    ASSIGNMENT_TOO_LARGE = "assignment_too_large"
    GROUP_TOO_LARGE = "group_too_large"
    TOPICS_CHANGED = "topics_changed"
    PROTOCOL_MIGRATED = "protocol_migrated"


class RebalanceCause(NamedTuple):
    """One cause: what happened, to which members, and what the client itself gave as its reason."""

    kind: CauseKind
    members: tuple[str, ...] = ()
    detail: str = ""

    def __str__(self) -> str:
        who = " " + ", ".join(self.members) if self.members else ""
        why = f" ({self.detail})" if self.detail else ""
        return f"{self.kind}{who}{why}"
