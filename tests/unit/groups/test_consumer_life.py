"""A consumer group: the coordinator assigns, and partitions move without ever having two owners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from highwater.groups.causes import CauseKind
from highwater.groups.consumer.states import ConsumerGroupState
from highwater.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from tests.unit.groups.conftest import ConsumerStage


def refusal(consumers: ConsumerStage, name: str, **fields: Any) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        consumers.report(name, **fields)
    return refused.value.code


# Sharing


def test_a_member_alone_has_everything_with_its_first_answer(consumers: ConsumerStage) -> None:
    consumers.join("ana", "leaves")
    assert consumers.owned["ana"] == {"leaves": frozenset(range(6))}
    assert consumers.epochs["ana"] == 1
    assert consumers.group.state is ConsumerGroupState.STABLE


def test_a_partition_moves_only_after_its_owner_has_given_it_up(consumers: ConsumerStage) -> None:
    consumers.join("ana", "leaves")
    consumers.join("ben", "leaves")
    assert consumers.shares() == {"ana": 6, "ben": 0}
    had = consumers.owned["ana"]
    consumers.hear("ana")
    assert len(consumers.told["ana"]["leaves"]) == 3, "it is told what to keep"
    consumers.beat("ben")
    assert consumers.shares()["ben"] == 0, "ana has not said yet that she let go"
    consumers.beat("ana")
    consumers.settle("ana", "ben")
    assert consumers.shares() == {"ana": 3, "ben": 3}
    assert had["leaves"] == consumers.owned["ana"]["leaves"] | consumers.owned["ben"]["leaves"]


def test_members_for_whom_nothing_changes_are_not_disturbed(consumers: ConsumerStage) -> None:
    consumers.topics.put("leaves", 4)
    consumers.join("ana", "leaves")
    consumers.join("ben", "leaves")
    consumers.settle("ana", "ben")
    before = consumers.owned["ana"]
    consumers.topics.put("water", 1)
    consumers.join("cem", "water")
    answer = consumers.report("ana")
    assert answer.assignment is None, "there is a new epoch, and no news for ana"
    assert consumers.owned["ana"] == before


def test_when_a_member_leaves_the_others_get_its_partitions_at_once(consumers: ConsumerStage) -> None:
    consumers.join("ana", "leaves")
    consumers.join("ben", "leaves")
    consumers.settle("ana", "ben")
    consumers.leave("ben")
    consumers.beat("ana")
    assert consumers.shares() == {"ana": 6}
    assert consumers.causes[-1] is CauseKind.MEMBER_LEFT


def test_a_silent_member_is_removed_after_its_session(consumers: ConsumerStage) -> None:
    consumers.join("ana", "leaves")
    consumers.join("ben", "leaves")
    consumers.settle("ana", "ben")
    consumers.wait(40_000)
    consumers.beat("ana")
    consumers.wait(5_000)
    consumers.beat("ana")
    assert consumers.shares()["ana"] == 6
    assert consumers.causes[-1] is CauseKind.SESSION_EXPIRED
    assert refusal(consumers, "ben") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_does_not_let_go_in_time_is_removed(consumers: ConsumerStage) -> None:
    consumers.join("ana", "leaves", rebalance_ms=20_000)
    consumers.join("ben", "leaves")
    consumers.hear("ana")
    consumers.wait(19_000)
    consumers.hear("ana")
    consumers.beat("ben")
    assert consumers.shares()["ben"] == 0
    consumers.wait(1_000)
    consumers.beat("ben")
    assert consumers.shares()["ben"] == 6
    assert consumers.causes[-1] is CauseKind.REVOCATION_TIMED_OUT


def test_more_partitions_reach_the_group_with_the_next_report(consumers: ConsumerStage) -> None:
    consumers.join("ana", "leaves")
    consumers.topics.put("leaves", 9)
    consumers.beat("ana")
    assert consumers.shares() == {"ana": 9}
    assert consumers.causes == [CauseKind.MEMBER_JOINED, CauseKind.TOPICS_CHANGED]


def test_other_topics_do_not_concern_the_group(consumers: ConsumerStage) -> None:
    consumers.join("ana", "leaves")
    consumers.topics.put("water", 9)
    consumers.beat("ana")
    assert consumers.causes == [CauseKind.MEMBER_JOINED]


def test_a_deleted_topic_leaves_the_assignment(consumers: ConsumerStage) -> None:
    consumers.topics.put("water", 2)
    consumers.join("ana", "leaves", "water")
    assert consumers.shares() == {"ana": 8}
    consumers.topics.remove("water")
    consumers.settle("ana")
    assert consumers.owned["ana"] == {"leaves": frozenset(range(6))}


def test_a_topic_may_come_later_than_its_reader(consumers: ConsumerStage) -> None:
    consumers.join("ana", "water")
    assert consumers.shares() == {"ana": 0}
    consumers.topics.put("water", 2)
    consumers.beat("ana")
    assert consumers.shares() == {"ana": 2}


def test_a_changed_subscription_takes_effect(consumers: ConsumerStage) -> None:
    consumers.topics.put("water", 2)
    consumers.join("ana", "leaves")
    consumers.hear("ana", subscribed_topic_names=["water"])
    consumers.settle("ana")
    assert consumers.owned["ana"] == {"water": frozenset({0, 1})}
    assert consumers.causes[-1] is CauseKind.MEMBER_CHANGED


def test_a_group_without_topics_is_a_group(consumers: ConsumerStage) -> None:
    consumers.join("ana")
    assert consumers.shares() == {"ana": 0}
    assert consumers.group.state is ConsumerGroupState.STABLE


# Patterns


def test_a_pattern_must_match_the_whole_name(consumers: ConsumerStage) -> None:
    consumers.topics.put("tea-green", 1)
    consumers.topics.put("iced-tea-green", 1)
    consumers.join("ana", regex="tea-.*")
    assert consumers.owned["ana"] == {"tea-green": frozenset({0})}


def test_a_new_topic_that_matches_reaches_the_group(consumers: ConsumerStage) -> None:
    consumers.join("ana", regex="tea-.*")
    consumers.topics.put("tea-black", 2)
    consumers.beat("ana")
    assert consumers.owned["ana"] == {"tea-black": frozenset({0, 1})}


def test_names_and_a_pattern_add_up(consumers: ConsumerStage) -> None:
    consumers.topics.put("tea-black", 2)
    consumers.join("ana", "leaves", regex="tea-.*")
    assert consumers.shares() == {"ana": 8}


def test_a_pattern_that_nobody_uses_any_more_is_forgotten(consumers: ConsumerStage) -> None:
    consumers.join("ana", regex="tea-.*")
    consumers.join("ben", "leaves")
    consumers.leave("ana")
    assert consumers.group.regexes == {}
    assert consumers.replayed().consumer_group("tea").regexes == {}


@pytest.mark.parametrize("pattern", ["(", "a{2,1}", r"(?<=look)behind"])
def test_a_pattern_that_is_not_re2_is_refused(consumers: ConsumerStage, pattern: str) -> None:
    with pytest.raises(KafkaError) as refused:
        consumers.join("ana", regex=pattern)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert consumers.log == []


# Epochs


def test_an_epoch_from_the_future_or_the_far_past_is_fenced(consumers: ConsumerStage) -> None:
    consumers.join("ana", "leaves")
    for name in ("ben", "cem"):
        consumers.join(name, "leaves")
        consumers.settle("ana", name)
    assert refusal(consumers, "ana", epoch=consumers.epochs["ana"] + 1) is ErrorCode.FENCED_MEMBER_EPOCH
    assert refusal(consumers, "ana", epoch=1) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_whose_answer_got_lost_may_be_one_epoch_behind(consumers: ConsumerStage) -> None:
    consumers.join("ana", "leaves")
    consumers.topics.put("leaves", 7)
    consumers.report("ana", topic_partitions=[])  # the answer with the new epoch is lost
    assert consumers.group.members["ana"].epoch == 2
    answer = consumers.report("ana", epoch=1, topic_partitions=[])
    assert answer.member_epoch == 2


def test_one_epoch_behind_with_more_than_it_was_given_is_fenced(consumers: ConsumerStage) -> None:
    consumers.join("ana", "leaves")
    consumers.topics.remove("leaves")
    consumers.report("ana", topic_partitions=[])
    assert refusal(consumers, "ana", epoch=1) is ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_that_lost_its_memory_joins_anew_under_its_id(consumers: ConsumerStage) -> None:
    """Kafka 4.1 fences it until its session ends, although it says itself that it owns nothing."""
    consumers.join("ana", "leaves")
    consumers.join("ben", "leaves")
    consumers.settle("ana", "ben")
    consumers.join("ana", "leaves")
    consumers.settle("ana", "ben")
    assert consumers.shares() == {"ana": 3, "ben": 3}


# Static members


def test_a_static_member_that_returns_gets_its_partitions_back(consumers: ConsumerStage) -> None:
    consumers.join("ana", "leaves")
    consumers.join("ben-1", "leaves", instance_id="seat")
    consumers.settle("ana", "ben-1")
    had = consumers.owned["ben-1"]
    consumers.leave("ben-1", epoch=-2, instance="seat")
    epoch = consumers.group.epoch
    consumers.beat("ana")
    assert consumers.shares()["ana"] == 3, "the seat is kept"
    consumers.join("ben-2", "leaves", instance_id="seat")
    assert consumers.owned["ben-2"] == had
    assert consumers.group.epoch == epoch, "nobody else notices"
    assert consumers.replayed().consumer_group("tea").static_members == {"seat": "ben-2"}


def test_a_static_member_that_stays_away_loses_its_seat(consumers: ConsumerStage) -> None:
    consumers.join("ana", "leaves")
    consumers.join("ben", "leaves", instance_id="seat")
    consumers.settle("ana", "ben")
    consumers.leave("ben", epoch=-2, instance="seat")
    for _ in range(5):
        consumers.wait(10_000)
        consumers.beat("ana")
    assert consumers.shares() == {"ana": 6}


def test_a_seat_that_is_taken_is_refused(consumers: ConsumerStage) -> None:
    consumers.join("ana", "leaves", instance_id="seat")
    with pytest.raises(KafkaError) as refused:
        consumers.join("twin", "leaves", instance_id="seat")
    assert refused.value.code is ErrorCode.UNRELEASED_INSTANCE_ID
    assert refusal(consumers, "twin", epoch=1, instance_id="seat") is ErrorCode.FENCED_INSTANCE_ID
    assert refusal(consumers, "ana", epoch=1, instance_id="nobody's") is ErrorCode.UNKNOWN_MEMBER_ID


# What is refused


@pytest.mark.parametrize(
    "fields",
    [
        {"epoch": 0, "topic_partitions": []},
        {"epoch": 0, "rebalance_timeout_ms": 1, "subscribed_topic_names": []},
        {"epoch": 0, "rebalance_timeout_ms": 1, "topic_partitions": []},
        {"epoch": -3},
        {"epoch": -2},
        {"epoch": 1, "instance_id": ""},
        {"epoch": 1, "rack_id": ""},
    ],
)
def test_a_report_that_makes_no_sense_is_refused(consumers: ConsumerStage, fields: dict[str, Any]) -> None:
    assert refusal(consumers, "ana", **fields) is ErrorCode.INVALID_REQUEST


def test_since_version_1_a_member_brings_its_own_id(consumers: ConsumerStage) -> None:
    joining = {"rebalance_timeout_ms": 1, "subscribed_topic_names": ["leaves"], "topic_partitions": []}
    assert refusal(consumers, "", epoch=0, **joining) is ErrorCode.INVALID_REQUEST
    answer = consumers.report("", epoch=0, version=0, **joining)
    assert answer.member_id == "fresh-id"


def test_an_assignor_that_we_do_not_have_is_refused(consumers: ConsumerStage) -> None:
    with pytest.raises(KafkaError) as refused:
        consumers.join("ana", "leaves", server_assignor="magic")
    assert refused.value.code is ErrorCode.UNSUPPORTED_ASSIGNOR


def test_a_full_group_takes_nobody_else(consumers: ConsumerStage) -> None:
    consumers.set(consumer_max_size=1)
    consumers.join("ana", "leaves")
    with pytest.raises(KafkaError) as refused:
        consumers.join("ben", "leaves")
    assert refused.value.code is ErrorCode.GROUP_MAX_SIZE_REACHED


def test_without_a_group_only_joining_makes_sense(consumers: ConsumerStage) -> None:
    assert refusal(consumers, "ana", epoch=3) is ErrorCode.GROUP_ID_NOT_FOUND
    assert refusal(consumers, "ana", epoch=-1) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_group_may_ask_for_ranges(consumers: ConsumerStage) -> None:
    consumers.topics.put("leaves", 10)
    for name in ("ana", "ben", "cem"):
        consumers.join(name, "leaves", server_assignor="range")
    consumers.settle("ana", "ben", "cem")
    assert consumers.shares() == {"ana": 4, "ben": 3, "cem": 3}
    assert consumers.owned["ana"] == {"leaves": frozenset({0, 1, 2, 3})}


# Crashes


def test_after_a_crash_members_carry_on_with_their_epochs(consumers: ConsumerStage) -> None:
    consumers.join("ana", "leaves")
    consumers.join("ben", "leaves")
    consumers.settle("ana", "ben")
    consumers.crash()
    epoch = consumers.group.epoch
    consumers.settle("ana", "ben")
    assert consumers.shares() == {"ana": 3, "ben": 3}
    assert consumers.group.epoch == epoch, "a restart is no reason to rebalance"


def test_after_a_crash_silent_members_are_still_found_out(consumers: ConsumerStage) -> None:
    consumers.join("ana", "leaves")
    consumers.crash()
    consumers.wait(45_000)
    assert consumers.group.state is ConsumerGroupState.EMPTY


def test_a_crash_in_the_middle_of_a_move_keeps_the_one_owner(consumers: ConsumerStage) -> None:
    consumers.join("ana", "leaves")
    consumers.join("ben", "leaves")
    consumers.hear("ana")  # told to give up three; has not done so
    consumers.crash()
    consumers.beat("ben")
    assert consumers.shares() == {"ana": 6, "ben": 0}
    consumers.beat("ana")
    consumers.settle("ana", "ben")
    assert consumers.shares() == {"ana": 3, "ben": 3}
