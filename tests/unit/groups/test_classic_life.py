"""A classic group from its first member to its last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from highwater.groups.causes import CauseKind
from highwater.groups.classic.states import LEGAL_MOVES, GroupState
from highwater.model.errors import ErrorCode

if TYPE_CHECKING:
    from tests.unit.groups.conftest import Stage


def test_a_first_member_is_given_an_id_and_joins_with_it(stage: Stage) -> None:
    """KIP-394: a client that never learns its id must not leave a member behind."""
    stage.join("ana")
    assert stage.error("ana") is ErrorCode.MEMBER_ID_REQUIRED
    assert stage.group.members == {}
    stage.join("ana")
    assert list(stage.group.members) == [stage.ids["ana"]]


def test_versions_before_4_join_without_an_id(stage: Stage) -> None:
    stage.join("ana", version=3)
    assert len(stage.group.members) == 1


def test_members_that_start_together_share_one_generation(stage: Stage) -> None:
    stage.enter("ana", "ben", "cem")
    assert stage.waits("ana")
    stage.wait(stage.settings.initial_rebalance_delay_ms * 2)
    assert {stage.joined(name).generation_id for name in ("ana", "ben", "cem")} == {1}
    assert stage.causes == [CauseKind.MEMBER_JOINED]


def test_the_first_delay_grows_with_each_newcomer_up_to_the_rebalance_timeout(stage: Stage) -> None:
    stage.enter("ana", rebalance_ms=7_000)
    for name in ("ben", "cem", "dan", "eve"):
        stage.wait(2_000)
        stage.enter(name, rebalance_ms=7_000)
    assert stage.joined("ana").generation_id == 1
    assert stage.joined("dan").generation_id == 1
    assert stage.waits("eve"), "it came after the first generation was closed"


def test_the_leader_learns_of_everybody_and_the_others_only_of_it(stage: Stage) -> None:
    stage.enter("ana", metadata=b"reads tea")
    stage.enter("ben", metadata=b"reads both")
    stage.wait(6_000)
    leader = stage.joined("ana")
    assert leader.leader == stage.ids["ana"]
    assert [(each.member_id, each.metadata) for each in leader.members] == [
        (stage.ids["ana"], b"reads tea"),
        (stage.ids["ben"], b"reads both"),
    ]
    assert stage.joined("ben").members == []
    assert stage.joined("ben").leader == stage.ids["ana"]


def test_everybody_gets_what_the_leader_assigned(stage: Stage) -> None:
    stage.enter("ana", "ben")
    stage.wait(6_000)
    stage.sync("ben")
    assert stage.waits("ben")
    stage.sync("ana", {"ana": b"0 1", "ben": b"2"})
    assert stage.assignment("ana") == b"0 1"
    assert stage.assignment("ben") == b"2"
    assert stage.group.state is GroupState.STABLE


def test_a_late_sync_is_answered_from_the_stable_group(stage: Stage) -> None:
    stage.enter("ana", "ben")
    stage.wait(6_000)
    stage.sync("ana", {"ana": b"0 1"})
    stage.sync("ben")
    assert stage.assignment("ben") == b"", "the leader named nothing for it"


def test_a_newcomer_makes_the_others_rejoin(stage: Stage) -> None:
    stage.assemble("ana", "ben")
    stage.enter("cem")
    assert stage.heartbeat("ana") is ErrorCode.REBALANCE_IN_PROGRESS
    stage.join("ana")
    assert stage.waits("cem")
    stage.join("ben")
    assert stage.joined("cem").generation_id == 2
    assert stage.causes == [CauseKind.MEMBER_JOINED, CauseKind.MEMBER_JOINED]


def test_a_member_that_does_not_rejoin_in_time_is_left_behind(stage: Stage) -> None:
    stage.assemble("ana", "ben", session_ms=90_000)
    stage.enter("cem")
    stage.join("ana")
    gone = stage.ids["ben"]
    stage.wait(60_000)
    assert stage.joined("ana").generation_id == 2
    assert stage.dropped == [gone]
    assert stage.heartbeat("ben") is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_others_wait_for_whoever_was_just_given_an_id(stage: Stage) -> None:
    """Without that the group would rebalance once more than needed."""
    stage.assemble("ana")
    stage.join("ben")
    stage.enter("cem")
    stage.join("ana")
    assert stage.waits("cem")
    stage.join("ben")
    assert stage.joined("ana").generation_id == stage.joined("ben").generation_id == 2


def test_an_id_that_nobody_joins_with_is_forgotten(stage: Stage) -> None:
    stage.assemble("ana", session_ms=90_000)
    stage.join("ben", session_ms=7_000)
    stage.enter("cem")
    stage.join("ana", session_ms=90_000)
    stage.wait(7_000)
    assert stage.joined("cem").generation_id == 2
    stage.join("ben")
    assert stage.error("ben") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_silent_member_is_removed_after_its_session(stage: Stage) -> None:
    stage.assemble("ana", "ben")
    stage.wait(9_000)
    assert stage.heartbeat("ana") is ErrorCode.NONE
    stage.wait(1_000)
    assert stage.ids["ben"] not in stage.group.members
    assert stage.heartbeat("ana") is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.causes[-1] is CauseKind.SESSION_EXPIRED


def test_members_that_fall_silent_together_cost_one_rebalance(stage: Stage) -> None:
    stage.assemble("ana", "ben", "cem")
    stage.wait(5_000)
    stage.heartbeat("ana")
    stage.wait(5_000)
    assert stage.causes == [CauseKind.MEMBER_JOINED, CauseKind.SESSION_EXPIRED]


def test_a_member_whose_request_waits_does_not_expire(stage: Stage) -> None:
    stage.assemble("ana", "ben", session_ms=20_000)
    stage.join("ana", session_ms=20_000, metadata=b"changed")
    for _ in range(5):
        stage.wait(9_000)
        assert stage.heartbeat("ben") is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.waits("ana")


def test_a_member_that_joins_and_never_syncs_is_removed(stage: Stage) -> None:
    """A member that vanishes between join and sync must not hold up the group for longer than a rebalance takes."""
    stage.enter("ana", "ben", session_ms=1_000_000)
    stage.wait(6_000)
    stage.sync("ana", {"ana": b"all"})
    assert stage.group.state is GroupState.STABLE
    stage.wait(60_000)
    assert list(stage.group.members) == [stage.ids["ana"]]
    assert stage.causes[-1] is CauseKind.SYNC_TIMED_OUT


def test_a_leader_that_vanishes_before_it_assigns_is_replaced(stage: Stage) -> None:
    stage.enter("ana", "ben")
    stage.wait(6_000)
    stage.sync("ben")
    stage.wait(10_000)
    assert stage.error("ben") is ErrorCode.REBALANCE_IN_PROGRESS
    stage.join("ben")
    assert stage.joined("ben").leader == stage.ids["ben"]


def test_when_a_member_leaves_the_rest_rebalance_at_once(stage: Stage) -> None:
    stage.assemble("ana", "ben")
    assert stage.leave("ben") == [ErrorCode.NONE]
    assert stage.heartbeat("ana") is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.causes[-1] is CauseKind.MEMBER_LEFT
    stage.join("ana")
    assert stage.joined("ana").generation_id == 2


def test_the_last_to_leave_leaves_an_empty_group_behind(stage: Stage) -> None:
    stage.assemble("ana")
    stage.leave("ana")
    assert stage.group.state is GroupState.EMPTY
    assert stage.stored[-1].members == []
    assert stage.stored[-1].generation == 2


def test_to_forget_an_id_that_nobody_joined_with_is_no_rebalance(stage: Stage) -> None:
    stage.assemble("ana")
    stage.join("ben")
    assert stage.leave("ben") == [ErrorCode.NONE]
    assert stage.heartbeat("ana") is ErrorCode.NONE


def test_strangers_cannot_leave(stage: Stage) -> None:
    stage.assemble("ana")
    assert stage.leave("nobody") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert stage.heartbeat("ana") is ErrorCode.NONE


def test_who_waits_when_it_is_removed_gets_an_answer(stage: Stage) -> None:
    stage.assemble("ana", "ben")
    stage.enter("cem")
    stage.leave("cem")
    assert stage.error("cem") is ErrorCode.UNKNOWN_MEMBER_ID


def test_every_state_can_be_left_but_the_last() -> None:
    assert set(LEGAL_MOVES) == set(GroupState)
    assert [state for state, moves in LEGAL_MOVES.items() if not moves] == [GroupState.DEAD]
    assert all(GroupState.DEAD in moves for state, moves in LEGAL_MOVES.items() if state is not GroupState.DEAD)
