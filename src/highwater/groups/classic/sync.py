"""SyncGroup: the leader hands in the assignment, the others wait for theirs."""

from highwater.groups.causes import CauseKind, RebalanceCause
from highwater.groups.classic.group import ClassicGroup
from highwater.groups.classic.member import Ticket
from highwater.groups.classic.outcome import Answer, Outcome
from highwater.groups.classic.rebalance import begin, refuse_syncs
from highwater.groups.classic.snapshot import snapshot_size_bytes
from highwater.groups.classic.states import GroupState
from highwater.groups.settings import GroupSettings
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

PROTOCOL_NAMED_SINCE = 5


class Syncer:
    """A SyncGroup and its ticket."""

    __slots__ = ("request", "ticket", "version")

    def __init__(self, request: SyncGroupRequest, version: int, ticket: Ticket) -> None:
        self.request = request
        self.version = version
        self.ticket = ticket

    @property
    def names_its_protocol(self) -> bool:
        """Whether it says what it thinks was agreed on, as it must since version 5 (KIP-559)."""
        said = self.request.protocol_type is not None and self.request.protocol_name is not None
        return said or self.version < PROTOCOL_NAMED_SINCE


def refused(syncer: Syncer, error: ErrorCode) -> Answer:
    """Return the answer to a SyncGroup that gets no assignment."""
    return Answer(syncer.ticket, SyncGroupResponse(error_code=error))


def sync(group: ClassicGroup, syncer: Syncer, *, settings: GroupSettings, now_ms: int, outcome: Outcome) -> None:
    """Decide: refuse, answer with the assignment, or let it wait for the leader's."""
    error = _check(group, syncer.request)
    if error:
        outcome.answers.append(refused(syncer, error))
        return
    member = group.members[syncer.request.member_id]
    group.pending_syncs.discard(member.member_id)
    if group.state is GroupState.STABLE:
        group.renew_session(member, now_ms)
        outcome.answers.append(Answer(syncer.ticket, group.synced(member)))
        return
    group.park_sync(member, syncer.ticket, outcome)
    if member.member_id == group.leader:
        _take_assignment(group, syncer.request, settings=settings, now_ms=now_ms, outcome=outcome)


def _check(group: ClassicGroup, request: SyncGroupRequest) -> ErrorCode:
    error = group.check_member(request.member_id, request.group_instance_id)
    if error:
        return error
    if request.generation_id != group.generation:
        return ErrorCode.ILLEGAL_GENERATION
    if request.protocol_type not in {None, group.protocol_type} or request.protocol_name not in {None, group.protocol}:
        return ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    if group.state is GroupState.PREPARING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


def _take_assignment(
    group: ClassicGroup, request: SyncGroupRequest, *, settings: GroupSettings, now_ms: int, outcome: Outcome
) -> None:
    """Give every member what the leader assigned, nothing where it named none; the group is stable then."""
    assigned = {each.member_id: each.assignment for each in request.assignments}
    for member in group.members.values():
        member.assignment = assigned.get(member.member_id, b"")
    size_bytes = snapshot_size_bytes(group)
    if size_bytes > settings.max_record_bytes:
        _refuse_oversized(group, size_bytes, settings=settings, now_ms=now_ms, outcome=outcome)
        return
    group.move_to(GroupState.STABLE)
    outcome.must_store = True
    for member in group.members.values():
        if member.sync_ticket is not None:
            group.answer_sync(member, group.synced(member), outcome)
            group.renew_session(member, now_ms)


def _refuse_oversized(
    group: ClassicGroup, size_bytes: int, *, settings: GroupSettings, now_ms: int, outcome: Outcome
) -> None:
    """Refuse a group that does not fit into one record, as Kafka does: an error for all, and another rebalance."""
    refuse_syncs(group, ErrorCode.UNKNOWN_SERVER_ERROR, now_ms=now_ms, outcome=outcome)
    detail = f"{size_bytes} bytes of subscriptions and assignments; a record holds {settings.max_record_bytes}"
    cause = RebalanceCause(CauseKind.ASSIGNMENT_TOO_LARGE, detail=detail)
    begin(group, cause, settings=settings, now_ms=now_ms, outcome=outcome)
