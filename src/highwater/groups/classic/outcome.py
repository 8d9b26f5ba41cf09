"""What an event in a classic group leads to."""

from typing import TYPE_CHECKING, NamedTuple

from highwater.groups.classic.member import Ticket
from highwater.protocol.messages.join_group import JoinGroupResponse
from highwater.protocol.messages.sync_group import SyncGroupResponse

if TYPE_CHECKING:
    from highwater.groups.causes import RebalanceCause


class Answer(NamedTuple):
    """The answer to a request that may have waited."""

    ticket: Ticket
    response: JoinGroupResponse | SyncGroupResponse


class Outcome:
    """Answers to send, whether the group must be written down first, and why it rebalanced.

    With `must_store` the group's snapshot goes to the log, and the answers leave when that is committed: a member never
    learns of an assignment that a fail-over could forget.
    """

    __slots__ = ("answers", "causes", "dropped", "must_store")

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.causes: list[RebalanceCause] = []
        self.dropped: list[str] = []
        """Members that a rebalance went on without, because they did not rejoin in time."""
        self.must_store = False
