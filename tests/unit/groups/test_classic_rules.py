"""Who is refused, who is fenced, and what a vote decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from highwater.groups.causes import CauseKind
from highwater.groups.classic.states import GroupState
from highwater.model.errors import ErrorCode

if TYPE_CHECKING:
    from tests.unit.groups.conftest import Stage


# Generations and ids


def test_an_older_generation_is_refused(stage: Stage) -> None:
    stage.assemble("ana")
    assert stage.heartbeat("ana", generation=0) is ErrorCode.ILLEGAL_GENERATION
    stage.sync("ana", generation=0)
    assert stage.error("ana") is ErrorCode.ILLEGAL_GENERATION


def test_a_stranger_is_refused(stage: Stage) -> None:
    stage.assemble("ana")
    assert stage.heartbeat("nobody") is ErrorCode.UNKNOWN_MEMBER_ID
    stage.join("ben", member_id="made-up")
    assert stage.error("ben") is ErrorCode.UNKNOWN_MEMBER_ID
    stage.sync("cem")
    assert stage.error("cem") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_sync_during_the_join_phase_is_sent_back_to_join(stage: Stage) -> None:
    stage.assemble("ana", "ben")
    stage.enter("cem")
    stage.sync("ana")
    assert stage.error("ana") is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_sync_must_agree_on_the_protocol(stage: Stage) -> None:
    """KIP-559: the member says what it thinks was agreed on."""
    stage.enter("ana")
    stage.wait(6_000)
    stage.sync("ana", protocol_type="connect")
    assert stage.error("ana") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    stage.sync("ana", protocol_name="sticky")
    assert stage.error("ana") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    stage.sync("ana", {"ana": b"all"}, protocol_type="consumer", protocol_name="range")
    assert stage.assignment("ana") == b"all"


# Joining again


def test_a_follower_that_rejoins_unchanged_does_not_disturb_the_group(stage: Stage) -> None:
    stage.assemble("ana", "ben")
    stage.join("ben")
    assert stage.joined("ben").generation_id == 1
    assert stage.heartbeat("ana") is ErrorCode.NONE


def test_a_leader_that_rejoins_asks_for_a_rebalance(stage: Stage) -> None:
    """This is how a consumer tells that its topics have more partitions now."""
    stage.assemble("ana", "ben")
    stage.join("ana", reason="cached metadata has changed")
    assert stage.heartbeat("ben") is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.causes[-1] is CauseKind.LEADER_REJOINED


def test_a_changed_subscription_makes_a_rebalance(stage: Stage) -> None:
    stage.assemble("ana", "ben")
    stage.join("ben", metadata=b"reads more")
    assert stage.causes[-1] is CauseKind.MEMBER_CHANGED
    stage.join("ana")
    assert stage.joined("ana").members[1].metadata == b"reads more"


def test_a_join_answer_that_got_lost_is_given_again(stage: Stage) -> None:
    stage.enter("ana", "ben")
    stage.wait(6_000)
    stage.join("ana")
    assert len(stage.joined("ana").members) == 2
    stage.join("ben")
    assert stage.joined("ben").members == []
    assert stage.group.state is GroupState.COMPLETING_REBALANCE


def test_a_client_that_asks_twice_is_answered_twice(stage: Stage) -> None:
    """Its first request timed out on its side; nothing may be left waiting for ever."""
    stage.assemble("ana", "ben")
    stage.enter("cem")
    stage.join("ana")
    stage.join("ana", metadata=b"again")
    assert stage.error("ana") is ErrorCode.REBALANCE_IN_PROGRESS
    assert stage.waits("ana")


# Protocols


def test_the_protocol_that_most_members_like_best_wins(stage: Stage) -> None:
    stage.enter("ana", protocols=("range", "sticky"))
    stage.enter("ben", "cem", protocols=("sticky", "range"))
    stage.wait(9_000)
    assert stage.joined("ana").protocol_name == "sticky"


def test_only_a_protocol_that_all_offer_can_win(stage: Stage) -> None:
    stage.enter("ana", protocols=("range",))
    stage.enter("ben", "cem", protocols=("sticky", "range"))
    stage.wait(9_000)
    assert stage.joined("ana").protocol_name == "range"


def test_a_draw_goes_to_the_earlier_member(stage: Stage) -> None:
    stage.enter("ana", protocols=("range", "sticky"))
    stage.enter("ben", protocols=("sticky", "range"))
    stage.wait(9_000)
    assert stage.joined("ana").protocol_name == "range"


@pytest.mark.parametrize(
    "offer",
    [{"protocols": ("sticky",)}, {"protocols": ()}, {"protocol_type": "connect"}],
)
def test_a_member_that_shares_no_protocol_with_the_others_is_refused(stage: Stage, offer: dict[str, object]) -> None:
    stage.assemble("ana")
    stage.join("ben", **offer)  # type: ignore[arg-type]
    assert stage.error("ben") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert stage.heartbeat("ana") is ErrorCode.NONE


@pytest.mark.parametrize("offer", [{"protocols": ()}, {"protocol_type": ""}])
def test_a_first_member_must_offer_something(stage: Stage, offer: dict[str, object]) -> None:
    stage.join("ana", **offer)  # type: ignore[arg-type]
    assert stage.error("ana") is ErrorCode.INCONSISTENT_GROUP_PROTOCOL


# Size


def test_a_full_group_takes_nobody_else(stage: Stage) -> None:
    stage.set(max_group_size=2)
    stage.assemble("ana", "ben")
    stage.join("cem")
    assert stage.error("cem") is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert stage.heartbeat("ana") is ErrorCode.NONE


def test_a_lowered_limit_drops_the_last_to_rejoin(stage: Stage) -> None:
    stage.assemble("ana", "ben", "cem")
    stage.set(max_group_size=2)
    stage.join("ana", metadata=b"changed")
    stage.join("ben")
    stage.join("cem")
    assert stage.error("cem") is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert stage.joined("ana").generation_id == 2
    assert len(stage.joined("ana").members) == 2


def test_an_assignment_too_large_for_the_log_is_refused_to_all(stage: Stage) -> None:
    stage.set(max_record_bytes=10_000)
    stage.enter("ana", "ben")
    stage.wait(6_000)
    stage.sync("ben")
    stage.sync("ana", {"ana": bytes(6_000), "ben": bytes(6_000)})
    assert stage.error("ana") is stage.error("ben") is ErrorCode.UNKNOWN_SERVER_ERROR
    assert stage.causes[-1] is CauseKind.ASSIGNMENT_TOO_LARGE
    assert stage.stored == []


# Static members


def test_a_static_member_that_returns_gets_its_place_back(stage: Stage) -> None:
    """KIP-345: a restart within the session is no rebalance."""
    stage.enter("ana")
    stage.enter("ben", instance="seat-2")
    stage.wait(6_000)
    stage.sync("ben", group_instance_id="seat-2")
    stage.sync("ana", {"ana": b"0", "ben": b"1"})
    old_id = stage.ids.pop("ben")
    stage.join("ben", instance="seat-2")
    assert stage.joined("ben").generation_id == 1
    assert stage.ids["ben"] != old_id
    stage.sync("ben", group_instance_id="seat-2")
    assert stage.assignment("ben") == b"1"
    assert stage.heartbeat("ana") is ErrorCode.NONE
    assert [each.member_id for each in stage.stored[-1].members] == [stage.ids["ana"], stage.ids["ben"]]


def test_a_static_leader_that_returns_is_told_not_to_assign(stage: Stage) -> None:
    stage.assemble("ana", instance="seat-1")
    del stage.ids["ana"]
    stage.join("ana", instance="seat-1")
    answer = stage.joined("ana")
    assert (answer.skip_assignment, answer.leader, len(answer.members)) == (True, answer.member_id, 1)


def test_an_older_static_leader_that_returns_does_not_know_that_it_leads(stage: Stage) -> None:
    """Before version 9 there is no way to say `do not assign` but to name another leader."""
    stage.assemble("ana", instance="seat-1")
    old_id = stage.ids.pop("ana")
    stage.join("ana", instance="seat-1", version=8)
    answer = stage.joined("ana")
    assert (answer.skip_assignment, answer.leader, answer.members) == (False, old_id, [])


def test_of_two_members_with_one_instance_id_the_older_is_fenced(stage: Stage) -> None:
    stage.assemble("ana", instance="seat-1")
    old_id = stage.ids["ana"]
    stage.join("twin", instance="seat-1")
    assert stage.heartbeat("ana", instance="seat-1") is ErrorCode.FENCED_INSTANCE_ID
    stage.join("ana", member_id=old_id, instance="seat-1")
    assert stage.error("ana") is ErrorCode.FENCED_INSTANCE_ID
    assert stage.heartbeat("twin", instance="seat-1") is ErrorCode.NONE


def test_a_fenced_member_that_waits_hears_of_it(stage: Stage) -> None:
    stage.enter("ana", instance="seat-1")
    assert stage.waits("ana")
    stage.join("twin", instance="seat-1")
    assert stage.error("ana") is ErrorCode.FENCED_INSTANCE_ID
    assert len(stage.group.members) == 1


def test_a_static_member_that_is_replaced_between_join_and_sync_rebalances_the_group(stage: Stage) -> None:
    """The leader may have seen the old id already, and would assign to nobody."""
    stage.enter("ana")
    stage.enter("ben", instance="seat-2")
    stage.wait(6_000)
    del stage.ids["ben"]
    stage.join("ben", instance="seat-2")
    assert stage.causes[-1] is CauseKind.STATIC_MEMBER_REPLACED
    stage.join("ana")
    assert stage.joined("ben").generation_id == stage.joined("ana").generation_id == 2


def test_a_static_member_that_returns_with_another_preference_can_cause_a_rebalance(stage: Stage) -> None:
    stage.assemble("ana", instance="seat-1", protocols=("range", "sticky"))
    del stage.ids["ana"]
    stage.join("ana", instance="seat-1", protocols=("sticky", "range"))
    assert stage.joined("ana").generation_id == 2
    assert stage.joined("ana").protocol_name == "sticky"


def test_a_static_member_that_is_away_keeps_its_place_until_its_session_ends(stage: Stage) -> None:
    stage.enter("ana", rebalance_ms=15_000, session_ms=100_000)
    stage.enter("ben", rebalance_ms=15_000, session_ms=50_000, instance="seat-2")
    stage.wait(9_000)
    stage.sync("ben", group_instance_id="seat-2")
    stage.sync("ana", {"ana": b"0", "ben": b"1"})
    stage.join("ana", rebalance_ms=15_000, session_ms=100_000, metadata=b"changed")
    stage.wait(15_000)
    assert len(stage.joined("ana").members) == 2, "ben did not rejoin, yet its place is kept"
    stage.sync("ana", {"ana": b"0", "ben": b"1"})
    stage.wait(20_000)
    assert stage.group.state is GroupState.STABLE
    stage.heartbeat("ana")
    stage.wait(15_000)
    assert stage.causes[-1] is CauseKind.SESSION_EXPIRED


def test_an_administrator_removes_a_static_member_by_its_instance_id(stage: Stage) -> None:
    stage.assemble("ana", instance="seat-1")
    assert stage.leave(instance="seat-9") == [ErrorCode.UNKNOWN_MEMBER_ID]
    assert stage.leave(instance="seat-1") == [ErrorCode.NONE]
    assert stage.group.state is GroupState.EMPTY


# Crashes


def test_after_a_crash_members_carry_on_with_their_generation(stage: Stage) -> None:
    stage.assemble("ana", "ben")
    stage.crash()
    assert stage.heartbeat("ana") is ErrorCode.NONE
    stage.sync("ben")
    assert stage.assignment("ben") == b"for ben"


def test_after_a_crash_members_have_a_whole_session_to_be_heard_from(stage: Stage) -> None:
    stage.assemble("ana")
    stage.wait(9_000)
    stage.crash()
    stage.wait(9_000)
    assert stage.heartbeat("ana") is ErrorCode.NONE
    stage.wait(10_000)
    assert stage.group.state is GroupState.EMPTY


@pytest.mark.parametrize("moment", ["joining", "syncing"])
def test_a_crash_in_the_middle_of_a_rebalance_leads_back_to_a_stable_group(stage: Stage, moment: str) -> None:
    stage.assemble("ana", "ben")
    stage.enter("cem")
    if moment == "syncing":
        stage.join("ana")
        stage.join("ben")
        assert stage.group.state is GroupState.COMPLETING_REBALANCE
    generation = stage.group.generation
    stage.crash()
    assert stage.heartbeat("cem", generation=generation) is ErrorCode.UNKNOWN_MEMBER_ID
    del stage.ids["cem"]
    stage.enter("cem")
    for name in ("ana", "ben"):
        stage.join(name)
    leader = stage.leader()
    for name in sorted({"ana", "ben", "cem"} - {leader}):
        stage.sync(name)
    stage.sync(leader, {name: name.encode() for name in ("ana", "ben", "cem")})
    assert [stage.assignment(name) for name in ("ana", "ben", "cem")] == [b"ana", b"ben", b"cem"]
    assert stage.group.generation > stage.stored[0].generation
