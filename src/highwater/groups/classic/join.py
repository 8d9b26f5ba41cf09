"""JoinGroup: a member asks to be part of the next generation."""

from highwater.groups.causes import CauseKind, RebalanceCause
from highwater.groups.classic.group import ClassicGroup
from highwater.groups.classic.member import NO_MEMBER_ID, ClassicMember, MemberProtocol, Ticket
from highwater.groups.classic.outcome import Answer, Outcome
from highwater.groups.classic.rebalance import begin_or_complete, complete_if_all_joined
from highwater.groups.classic.states import GroupState
from highwater.groups.settings import GroupSettings
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

KNOWN_MEMBER_ID_SINCE = 4
SKIPPED_ASSIGNMENT_SINCE = 9


class Joiner:
    """A JoinGroup and who sent it; `fresh_member_id` is the id it gets if it has none."""

    __slots__ = ("client_host", "client_id", "fresh_member_id", "protocols", "request", "ticket", "version")

    def __init__(
        self,
        request: JoinGroupRequest,
        version: int,
        client_id: str,
        client_host: str,
        fresh_member_id: str,
        ticket: Ticket,
    ) -> None:
        self.request = request
        self.version = version
        self.client_id = client_id
        self.client_host = client_host
        self.fresh_member_id = fresh_member_id
        self.ticket = ticket
        self.protocols = tuple([MemberProtocol(offer.name, offer.metadata) for offer in request.protocols])
        """What the member offers, its favourite first."""

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long it may take to rejoin; version 0 has one timeout for both."""
        asked = self.request.rebalance_timeout_ms
        return asked if asked >= 0 else self.request.session_timeout_ms

    def cause(self, kind: CauseKind, member_id: str) -> RebalanceCause:
        """Return the cause of the rebalance that this request brings, with the client's own reason (KIP-800)."""
        return RebalanceCause(kind, (member_id,), self.request.reason or "")


def refused(joiner: Joiner, error: ErrorCode, *, member_id: str | None = None) -> Answer:
    """Return the answer to a JoinGroup that does not lead to membership."""
    told_id = joiner.request.member_id if member_id is None else member_id
    return Answer(joiner.ticket, JoinGroupResponse(error_code=error, member_id=told_id))


class Joining:
    """One JoinGroup on its way through a group."""

    __slots__ = ("_group", "_joiner", "_now_ms", "_outcome", "_settings")

    def __init__(
        self, group: ClassicGroup, joiner: Joiner, *, settings: GroupSettings, now_ms: int, outcome: Outcome
    ) -> None:
        self._group = group
        self._joiner = joiner
        self._settings = settings
        self._now_ms = now_ms
        self._outcome = outcome

    def run(self) -> None:
        """Decide: refuse, answer at once, or let it wait for the others."""
        request = self._joiner.request
        if not self._has_room():
            self._drop_for_lack_of_room()
        elif not self._group.supports(request.protocol_type, self._joiner.protocols):
            self._refuse(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        elif request.member_id != NO_MEMBER_ID:
            self._join_with_id()
        elif request.group_instance_id is not None:
            self._join_static(request.group_instance_id)
        elif self._joiner.version >= KNOWN_MEMBER_ID_SINCE:
            self._hand_out_id()
        else:
            self._add(self._joiner.fresh_member_id)

    def _refuse(self, error: ErrorCode, *, member_id: str | None = None) -> None:
        self._outcome.answers.append(refused(self._joiner, error, member_id=member_id))

    # Room -----------------------------------------------------------------------------------------------------------

    def _has_room(self) -> bool:
        """Whether the group may take this member.

        While members rejoin, those who have are counted, not those who were there: the group may be over the limit
        (which can be lowered), and then the last to rejoin are the ones that go.
        """
        group, limit = self._group, self._settings.max_group_size
        member = group.members.get(self._joiner.request.member_id)
        match group.state:
            case GroupState.PREPARING_REBALANCE:
                return (member is not None and member.join_ticket is not None) or group.awaiting_joins < limit
            case GroupState.COMPLETING_REBALANCE | GroupState.STABLE:
                return member is not None or len(group.members) < limit
            case _:
                return True

    def _drop_for_lack_of_room(self) -> None:
        member = self._group.members.get(self._joiner.request.member_id)
        if member is not None:
            self._group.remove(member, self._outcome)
        self._group.pending_joins.pop(self._joiner.request.member_id, None)
        self._refuse(ErrorCode.GROUP_MAX_SIZE_REACHED, member_id=NO_MEMBER_ID)
        complete_if_all_joined(self._group, now_ms=self._now_ms, outcome=self._outcome)

    # Newcomers ------------------------------------------------------------------------------------------------------

    def _hand_out_id(self) -> None:
        """Give the member an id and ask it to join with that (KIP-394).

        A client that crashes while it joins again and again would otherwise leave a member behind each time.
        """
        member_id = self._joiner.fresh_member_id
        expires_at_ms = self._now_ms + self._joiner.request.session_timeout_ms
        self._group.pending_joins[member_id] = expires_at_ms
        self._group.wake_by(expires_at_ms)
        self._refuse(ErrorCode.MEMBER_ID_REQUIRED, member_id=member_id)

    def _add(self, member_id: str) -> None:
        group, request = self._group, self._joiner.request
        member = ClassicMember(
            member_id=member_id,
            instance_id=request.group_instance_id,
            client_id=self._joiner.client_id,
            client_host=self._joiner.client_host,
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=self._joiner.rebalance_timeout_ms,
            protocols=self._joiner.protocols,
        )
        member.is_new = True
        # It has no id to send heartbeats with before its first answer, which may take as long as the others need. A
        # client that gave up meanwhile must not be waited for without end either.
        member.expires_at_ms = self._now_ms + self._settings.new_member_join_timeout_ms
        group.wake_by(member.expires_at_ms)
        group.member_joined_in_delay |= group.waits_for_first_members
        group.add(member, request.protocol_type)
        group.park_join(member, self._joiner.ticket, self._outcome)
        self._rebalance(CauseKind.MEMBER_JOINED, member_id)

    # Static members -------------------------------------------------------------------------------------------------

    def _join_static(self, instance_id: str) -> None:
        if instance_id not in self._group.static_members:
            self._add(self._joiner.fresh_member_id)
            return
        told_leader = self._group.leader
        member = self._group.replace_static(instance_id, self._joiner.fresh_member_id, self._outcome)
        self._take_offer(member)
        self._group.renew_session(member, self._now_ms)
        if self._group.state is GroupState.STABLE and self._group.select_protocol() == self._group.protocol:
            self._hand_back_place(member, told_leader)
        else:
            self._group.park_join(member, self._joiner.ticket, self._outcome)
            self._rebalance(CauseKind.STATIC_MEMBER_REPLACED, member.member_id)

    def _hand_back_place(self, member: ClassicMember, told_leader: str | None) -> None:
        """Give a static member that came back the assignment it left, without a rebalance (KIP-345).

        If it leads, it must not assign anew. Since version 9 it can be told that; to an older one the leader goes by
        its former id, which is nobody's now.
        """
        leads = member.member_id == self._group.leader
        knows_skipping = self._joiner.version >= SKIPPED_ASSIGNMENT_SINCE
        response = self._group.joined(member, with_members=leads and knows_skipping)
        if knows_skipping:
            response.skip_assignment = leads
        else:
            response.leader = told_leader or ""
        self._outcome.answers.append(Answer(self._joiner.ticket, response))
        self._outcome.must_store = True

    # Members --------------------------------------------------------------------------------------------------------

    def _join_with_id(self) -> None:
        group, request = self._group, self._joiner.request
        if request.member_id in group.pending_joins:
            self._add(request.member_id)
            return
        error = group.check_member(request.member_id, request.group_instance_id)
        if error:
            self._refuse(error)
            return
        self._rejoin(group.members[request.member_id])

    def _rejoin(self, member: ClassicMember) -> None:
        group = self._group
        leads = member.member_id == group.leader
        same_offer = member.protocols == self._joiner.protocols
        if group.state is GroupState.COMPLETING_REBALANCE and same_offer:
            self._repeat_answer(member, with_members=leads)  # It did not get the first one.
        elif group.state is GroupState.STABLE and same_offer and not leads:
            self._repeat_answer(member, with_members=False)
        else:
            self._take_offer(member)
            group.park_join(member, self._joiner.ticket, self._outcome)
            rejoins_to_assign = leads and same_offer
            kind = CauseKind.LEADER_REJOINED if rejoins_to_assign else CauseKind.MEMBER_CHANGED
            self._rebalance(kind, member.member_id)

    def _repeat_answer(self, member: ClassicMember, *, with_members: bool) -> None:
        self._group.renew_session(member, self._now_ms)
        self._outcome.answers.append(Answer(self._joiner.ticket, self._group.joined(member, with_members=with_members)))

    def _take_offer(self, member: ClassicMember) -> None:
        self._group.change_offer(
            member,
            protocols=self._joiner.protocols,
            session_timeout_ms=self._joiner.request.session_timeout_ms,
            rebalance_timeout_ms=self._joiner.rebalance_timeout_ms,
        )

    def _rebalance(self, kind: CauseKind, member_id: str) -> None:
        begin_or_complete(
            self._group,
            self._joiner.cause(kind, member_id),
            settings=self._settings,
            now_ms=self._now_ms,
            outcome=self._outcome,
        )
