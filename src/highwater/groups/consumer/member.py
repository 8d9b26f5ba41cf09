"""One member of a consumer group."""

from typing import Final, NamedTuple

from highwater.groups.classic.member import MemberProtocol
from highwater.groups.consumer.assignment import NOTHING, Assignment
from highwater.groups.consumer.states import MemberState

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
AWAY_EPOCH: Final = -2
"""Of a static member that has left and means to come back."""

NEVER_MS: Final = 2**63 - 1


class Subscription(NamedTuple):
    """What a member asked for and who it is: its metadata record."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: frozenset[str] = frozenset()
    topic_regex: str = ""
    rebalance_timeout_ms: int = -1
    assignor: str | None = None
    classic: "ClassicPart | None" = None
    """Set while the member still speaks the classic protocol."""


class ClassicPart(NamedTuple):
    """What only a member that speaks the classic protocol has."""

    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]


class ConsumerMember:
    """A member, what it has, and what it must give up.

    `assigned` and `revoking` are both still its own as far as others are concerned: a partition is free when it is in
    neither of any member.

    `act_by_ms` is by when it must have done what it was asked for: to give up partitions; with the classic protocol, to
    join again or to sync.
    """

    __slots__ = (
        "act_by_ms",
        "assigned",
        "epoch",
        "expires_at_ms",
        "member_id",
        "previous_epoch",
        "revoking",
        "state",
        "subscription",
    )

    def __init__(self, member_id: str) -> None:
        self.member_id = member_id
        self.subscription = Subscription()
        self.epoch = JOINING_EPOCH
        self.previous_epoch = LEAVING_EPOCH
        self.state = MemberState.STABLE
        self.assigned: Assignment = NOTHING
        self.revoking: Assignment = NOTHING
        self.expires_at_ms = NEVER_MS
        self.act_by_ms = NEVER_MS

    def session_timeout_ms(self, default_ms: int) -> int:
        """Return how long it may be silent: the group's setting, unless it speaks the protocol where members choose."""
        classic = self.subscription.classic
        return default_ms if classic is None else classic.session_timeout_ms

    def has_reached(self, target_epoch: int) -> bool:
        """Whether it has all that the target of this epoch gives it, and nothing else."""
        return self.state is MemberState.STABLE and self.epoch == target_epoch
