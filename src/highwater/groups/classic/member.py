"""One member of a classic group."""

from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

Ticket = object
"""Stands for a request that waits: given in with it, and handed back with its answer."""

NO_MEMBER_ID: Final = ""


class MemberProtocol(NamedTuple):
    """An assignment strategy that a member offers, with what it wants the group's leader to know."""

    name: str
    metadata: bytes


class ClassicMember:
    """Who it is, what it offers, and which of its requests wait.

    A member is `is_new` until its first JoinGroup is answered: until then it has no id to send heartbeats with.
    """

    __slots__ = (
        "assignment",
        "client_host",
        "client_id",
        "expires_at_ms",
        "instance_id",
        "is_new",
        "join_ticket",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "sync_ticket",
    )

    def __init__(
        self,
        *,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        client_host: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: tuple[MemberProtocol, ...],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.client_host = client_host
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.expires_at_ms = 0
        self.is_new = False
        self.join_ticket: Ticket | None = None
        self.sync_ticket: Ticket | None = None

    def metadata_for(self, protocol: str | None) -> bytes:
        """Return what this member said under `protocol`, or nothing if it does not offer it."""
        for offer in self.protocols:
            if offer.name == protocol:
                return offer.metadata
        return b""

    def vote(self, candidates: AbstractSet[str]) -> str:
        """Return the first of its own protocols that is a candidate."""
        return next(offer.name for offer in self.protocols if offer.name in candidates)

    def protocol_names(self) -> set[str]:
        """Return the names on offer."""
        return {offer.name for offer in self.protocols}

    def has_expired(self, now_ms: int) -> bool:
        """Whether its session is over. A known member whose request we keep waiting is alive as far as we know."""
        if now_ms < self.expires_at_ms:
            return False
        return self.is_new or (self.join_ticket is None and self.sync_ticket is None)
