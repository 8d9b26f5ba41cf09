"""A classic group: its members, its generation and its deadlines.

Nothing here waits or reads a clock. The modules beside this one (`join`, `sync`, `leave`, `rebalance`, `timeouts`) move
the group on; the driver calls `timeouts.tick` no later than `wake_at_ms`.
"""

from collections import Counter
from typing import Final

from highwater.groups.classic.member import ClassicMember, MemberProtocol, Ticket
from highwater.groups.classic.outcome import Answer, Outcome
from highwater.groups.classic.states import LEGAL_MOVES, GroupState, moved
from highwater.groups.subscription import subscribed_topics
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.join_group import JoinGroupResponse, JoinGroupResponseMember
from highwater.protocol.messages.sync_group import SyncGroupResponse

CONSUMER_PROTOCOL: Final = "consumer"
"""The protocol type of consumers; others (Connect, Schema Registry) have their own."""

NEVER_MS: Final = 2**63 - 1
NO_GENERATION: Final = -1


class ClassicGroup:
    """One group.

    Invariants: `leader` is a member whenever there are members after a rebalance; a member awaits a join answer only
    while PREPARING_REBALANCE, and a sync answer only while COMPLETING_REBALANCE; the generation never goes back.
    """

    __slots__ = (
        "_awaiting_joins",
        "_protocol_support",
        "generation",
        "group_id",
        "initial_delay_left_ms",
        "join_deadline_ms",
        "leader",
        "member_joined_in_delay",
        "members",
        "pending_joins",
        "pending_syncs",
        "previous_state",
        "protocol",
        "protocol_type",
        "state",
        "static_members",
        "stored_at_ms",
        "subscribed_topics",
        "sync_deadline_ms",
        "wake_at_ms",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.previous_state = GroupState.DEAD
        self.stored_at_ms: int | None = None
        """By the wall clock. A group that is empty has been so since then; all other times here are of the loop's."""
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.static_members: dict[str, str] = {}
        self.pending_joins: dict[str, int] = {}
        """Ids given out that have not joined yet (KIP-394), and until when each is kept."""
        self.pending_syncs: set[str] = set()
        self.subscribed_topics: frozenset[str] | None = None
        """What the members of this generation read; None if that cannot be known."""
        self.join_deadline_ms = NEVER_MS
        self.sync_deadline_ms = NEVER_MS
        self.initial_delay_left_ms = 0
        self.member_joined_in_delay = False
        self.wake_at_ms = NEVER_MS
        self._protocol_support: Counter[str] = Counter()
        self._awaiting_joins = 0

    # Life cycle -----------------------------------------------------------------------------------------------------

    def move_to(self, target: GroupState) -> None:
        """Enter `target`; a move that the table does not list is a bug."""
        self.previous_state, self.state = self.state, moved(self.state, target)

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may begin now (one that already waits for joins does not begin again)."""
        return GroupState.PREPARING_REBALANCE in LEGAL_MOVES[self.state]

    @property
    def waits_for_first_members(self) -> bool:
        """Whether this is the delay that gives a new group's members time to come together."""
        return self.state is GroupState.PREPARING_REBALANCE and self.previous_state is GroupState.EMPTY

    def next_generation(self) -> None:
        """Close the join phase over the members that are here now."""
        self.generation += 1
        self.pending_syncs.clear()
        if self.members:
            self.protocol = self.select_protocol()
            self.move_to(GroupState.COMPLETING_REBALANCE)
        else:
            self.protocol = None
            self.move_to(GroupState.EMPTY)
        self.refresh_subscribed_topics()

    def refresh_subscribed_topics(self) -> None:
        """Read from the members' own words which topics the group consumes."""
        self.subscribed_topics = (
            subscribed_topics(member.metadata_for(self.protocol) for member in self.members.values())
            if self.protocol_type == CONSUMER_PROTOCOL
            else None
        )

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether `topic` may be in use; consumers whose subscription cannot be read may use any."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER_PROTOCOL
        return topic in self.subscribed_topics

    # Members --------------------------------------------------------------------------------------------------------

    def add(self, member: ClassicMember, protocol_type: str) -> None:
        """Let `member` in. The first one sets the protocol type, and leads until it is gone."""
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        self._protocol_support.update(member.protocol_names())
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member: ClassicMember, outcome: Outcome) -> None:
        """Take `member` out; whatever it waits for ends with UNKNOWN_MEMBER_ID, so that a live one joins anew."""
        self.refuse_waiting(member, ErrorCode.UNKNOWN_MEMBER_ID, outcome)
        del self.members[member.member_id]
        self._protocol_support.subtract(member.protocol_names())
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)
        self.pending_syncs.discard(member.member_id)

    def replace_static(self, instance_id: str, new_member_id: str, outcome: Outcome) -> ClassicMember:
        """Give the static member its new id (KIP-345); whoever still waits under the old one is fenced."""
        old_member_id = self.static_members[instance_id]
        member = self.members[old_member_id]
        self.refuse_waiting(member, ErrorCode.FENCED_INSTANCE_ID, outcome)
        member.member_id = new_member_id
        member.is_new = False
        # The order stays, and with it every vote that is decided by who came first.
        self.members = {each.member_id: each for each in self.members.values()}
        self.static_members[instance_id] = new_member_id
        if self.leader == old_member_id:
            self.leader = new_member_id
        if old_member_id in self.pending_syncs:
            self.pending_syncs.remove(old_member_id)
            self.pending_syncs.add(new_member_id)
        return member

    def change_offer(
        self,
        member: ClassicMember,
        *,
        protocols: tuple[MemberProtocol, ...],
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
    ) -> None:
        """Take over what `member` offers and asks for in its latest JoinGroup: most often the same as before."""
        if protocols != member.protocols:
            self._protocol_support.subtract(member.protocol_names())
            member.protocols = protocols
            self._protocol_support.update(member.protocol_names())
        member.session_timeout_ms = session_timeout_ms
        member.rebalance_timeout_ms = rebalance_timeout_ms

    def check_member(self, member_id: str, instance_id: str | None) -> ErrorCode:
        """Return NONE if `member_id` is a member, and the one that holds `instance_id` if it claims one."""
        if instance_id is not None:
            holder = self.static_members.get(instance_id)
            if holder is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if holder != member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long this group waits for its slowest member."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def elect_joined_leader(self) -> bool:
        """Make sure that a member who has joined leads; return False if there is none."""
        current = self.members.get(self.leader) if self.leader is not None else None
        if current is not None and current.join_ticket is not None:
            return True
        joined = next((member for member in self.members.values() if member.join_ticket is not None), None)
        if joined is None:
            return False
        self.leader = joined.member_id
        return True

    # Protocols ------------------------------------------------------------------------------------------------------

    def common_protocols(self) -> set[str]:
        """Return the protocols that every member offers."""
        return {name for name, count in self._protocol_support.items() if count == len(self.members)}

    def supports(self, protocol_type: str, protocols: tuple[MemberProtocol, ...]) -> bool:
        """Whether a member with this offer could take part without leaving the others without a protocol."""
        if not self.members:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        return any(self._protocol_support[offer.name] == len(self.members) for offer in protocols)

    def select_protocol(self) -> str:
        """Return the protocol with the most first choices; among equals, the one that an earlier member prefers."""
        candidates = self.common_protocols()
        assert candidates, "members without a common protocol are refused when they join"
        votes = Counter(member.vote(candidates) for member in self.members.values())
        return votes.most_common(1)[0][0]

    # Who waits ------------------------------------------------------------------------------------------------------

    @property
    def awaiting_joins(self) -> int:
        """How many members have joined and wait for the others."""
        return self._awaiting_joins

    @property
    def all_have_joined(self) -> bool:
        """Whether nobody is missing: neither a member, nor one that was given an id and is about to join."""
        return self._awaiting_joins == len(self.members) and not self.pending_joins

    def park_join(self, member: ClassicMember, ticket: Ticket, outcome: Outcome) -> None:
        """Keep a JoinGroup waiting; an earlier one of the same member, whose client gave up on it, ends here."""
        self.answer_join(member, self._join_error(member, ErrorCode.REBALANCE_IN_PROGRESS), outcome)
        member.join_ticket = ticket
        self._awaiting_joins += 1

    def answer_join(self, member: ClassicMember, response: JoinGroupResponse, outcome: Outcome) -> None:
        """Answer the JoinGroup that waits, if one does."""
        if member.join_ticket is None:
            return
        outcome.answers.append(Answer(member.join_ticket, response))
        member.join_ticket = None
        self._awaiting_joins -= 1

    def park_sync(self, member: ClassicMember, ticket: Ticket, outcome: Outcome) -> None:
        """Keep a SyncGroup waiting; an earlier one of the same member ends here."""
        self.answer_sync(member, SyncGroupResponse(error_code=ErrorCode.REBALANCE_IN_PROGRESS), outcome)
        member.sync_ticket = ticket

    @staticmethod
    def answer_sync(member: ClassicMember, response: SyncGroupResponse, outcome: Outcome) -> None:
        """Answer the SyncGroup that waits, if one does."""
        if member.sync_ticket is None:
            return
        outcome.answers.append(Answer(member.sync_ticket, response))
        member.sync_ticket = None

    def refuse_waiting(self, member: ClassicMember, error: ErrorCode, outcome: Outcome) -> None:
        """End whatever request of `member` waits with `error`."""
        self.answer_join(member, self._join_error(member, error), outcome)
        self.answer_sync(member, SyncGroupResponse(error_code=error), outcome)

    @staticmethod
    def _join_error(member: ClassicMember, error: ErrorCode) -> JoinGroupResponse:
        return JoinGroupResponse(error_code=error, member_id=member.member_id)

    # Answers --------------------------------------------------------------------------------------------------------

    def joined(self, member: ClassicMember, *, with_members: bool) -> JoinGroupResponse:
        """Return the current generation as `member` learns it; whoever assigns gets everybody's metadata."""
        return JoinGroupResponse(
            generation_id=self.generation,
            protocol_type=self.protocol_type,
            protocol_name=self.protocol,
            leader=self.leader or "",
            member_id=member.member_id,
            members=self._roll_call() if with_members else [],
        )

    def synced(self, member: ClassicMember) -> SyncGroupResponse:
        """Return the assignment as `member` learns it."""
        return SyncGroupResponse(
            protocol_type=self.protocol_type, protocol_name=self.protocol, assignment=member.assignment
        )

    def _roll_call(self) -> list[JoinGroupResponseMember]:
        return [
            JoinGroupResponseMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                metadata=member.metadata_for(self.protocol),
            )
            for member in self.members.values()
        ]

    # Deadlines ------------------------------------------------------------------------------------------------------

    def renew_session(self, member: ClassicMember, now_ms: int) -> None:
        """Hear from `member`. `wake_at_ms` only ever has to come earlier, so most heartbeats leave it alone."""
        member.expires_at_ms = now_ms + member.session_timeout_ms
        self.wake_by(member.expires_at_ms)

    def wake_by(self, deadline_ms: int) -> None:
        """See to it that `tick` is called at `deadline_ms` or earlier."""
        self.wake_at_ms = min(self.wake_at_ms, deadline_ms)

    def set_join_deadline(self, deadline_ms: int) -> None:
        """End the join phase at `deadline_ms` even if members are missing."""
        self.join_deadline_ms = deadline_ms
        self.wake_by(deadline_ms)

    def earliest_deadline_ms(self) -> int:
        """Return when something is due next; O(members), so it is asked for on a tick and not on a heartbeat."""
        sessions = (
            member.expires_at_ms
            for member in self.members.values()
            if member.is_new or (member.join_ticket is None and member.sync_ticket is None)
        )
        return min(
            self.join_deadline_ms,
            self.sync_deadline_ms,
            min(self.pending_joins.values(), default=NEVER_MS),
            min(sessions, default=NEVER_MS),
        )
