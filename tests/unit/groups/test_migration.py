"""A group changes its protocol while its members read on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from highwater.groups import membership
from highwater.groups.causes import CauseKind
from highwater.groups.changes import Changes
from highwater.groups.classic.group import ClassicGroup
from highwater.groups.classic.join import Joiner
from highwater.groups.classic.outcome import Outcome
from highwater.groups.classic.states import GroupState
from highwater.groups.classic.sync import Syncer
from highwater.groups.consumer.group import ConsumerGroup
from highwater.groups.settings import MigrationPolicy
from highwater.groups.subscription import read_assignment, write_assignment
from highwater.model.errors import ErrorCode, KafkaError
from highwater.protocol import codec
from highwater.protocol.messages.consumer_protocol import ConsumerProtocolSubscription, TopicPartitions
from highwater.protocol.messages.heartbeat import HeartbeatRequest
from highwater.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from highwater.protocol.messages.leave_group import MemberIdentity
from highwater.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

if TYPE_CHECKING:
    from tests.unit.groups.conftest import ConsumerStage


class Mixed:
    """A consumer stage on which members of the classic protocol play too; these are cooperative."""

    def __init__(self, stage: ConsumerStage) -> None:
        self.stage = stage
        self.generations: dict[str, int] = {}
        self.owned: dict[str, frozenset[int]] = {}
        self._answers: dict[object, Any] = {}

    def _do(self, decide: Any) -> Any:
        changes = Changes(self.stage.shard, now_ms=self.stage.now_ms, wall_ms=self.stage.now_ms)
        outcome = Outcome()
        result = decide(changes, outcome)
        self.stage.take(changes, outcome)
        self._answers.update(dict(outcome.answers))
        return result

    def join(self, name: str) -> Any:
        """Send a JoinGroup with an id of the member's own, as one that was handed out before."""
        subscription = ConsumerProtocolSubscription(
            topics=["leaves"],
            owned_partitions=[TopicPartitions(topic="leaves", partitions=sorted(self.owned.get(name, ())))],
            generation_id=self.generations.get(name, -1),
        )
        request = JoinGroupRequest(
            group_id="tea",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            member_id=name if self.stage.shard.groups else "",
            protocol_type="consumer",
            protocols=[
                JoinGroupRequestProtocol(
                    name="cooperative-sticky", metadata=b"\x00\x03" + codec.encode(subscription, 3)
                )
            ],
        )
        joiner = Joiner(request, 3, "client", "/127.0.0.1", name, name)
        self._answers.pop(name, None)
        self._do(lambda changes, outcome: membership.join(self.stage.shard, joiner, changes, outcome))
        answer = self._answers.get(name)
        if answer is not None and not answer.error_code:
            self.generations[name] = answer.generation_id
        return answer

    def sync(self, name: str, assignments: dict[str, frozenset[int]] | None = None) -> Any:
        request = SyncGroupRequest(
            group_id="tea",
            generation_id=self.generations[name],
            member_id=name,
            assignments=[
                SyncGroupRequestAssignment(
                    member_id=each, assignment=write_assignment({"leaves": partitions}, like=b"\x00\x03")
                )
                for each, partitions in (assignments or {}).items()
            ],
        )
        self._do(
            lambda changes, outcome: membership.sync(
                self.stage.shard, Syncer(request, 4, name), now_ms=changes.now_ms, outcome=outcome
            )
        )
        answer = self._answers[name]
        if not answer.error_code:
            assigned = read_assignment(answer.assignment)
            assert assigned is not None
            self.owned[name] = frozenset(
                partition for entry in assigned.assigned_partitions for partition in entry.partitions
            )
        return answer

    def heartbeat(self, name: str) -> ErrorCode:
        request = HeartbeatRequest(group_id="tea", member_id=name, generation_id=self.generations[name])
        return membership.heartbeat(self.stage.shard, request, now_ms=self.stage.now_ms)

    def leave(self, name: str) -> list[int]:
        leavers = [MemberIdentity(member_id=name)]
        answers = self._do(
            lambda changes, outcome: membership.leave(self.stage.shard, "tea", leavers, changes, outcome)
        )
        return [answer.error_code for answer in answers]

    def follow(self, *names: str) -> None:
        """Let classic members do what heartbeats ask of them, until they are asked for nothing."""
        for _ in range(10):
            asked = [name for name in names if self.heartbeat(name) is ErrorCode.REBALANCE_IN_PROGRESS]
            if not asked:
                return
            for name in asked:
                self.join(name)
            for name in asked:
                self.sync(name)
        raise AssertionError("classic members are asked to rejoin over and over")


@pytest.fixture
def mixed(consumers: ConsumerStage) -> Mixed:
    """A classic group of one member, old, which has all six partitions."""
    play = Mixed(consumers)
    consumers.topics.put("leaves", 6)
    group = consumers.shard.classic_group("tea")
    group.pending_joins["old"] = consumers.now_ms + 10_000
    play.join("old")
    consumers.wait(4_000)
    play._do(lambda changes, outcome: membership.tick(consumers.shard, "tea", changes, outcome))
    play.generations["old"] = group.generation
    play.sync("old", {"old": frozenset(range(6))})
    assert group.state is GroupState.STABLE
    return play


def test_the_first_member_of_the_newer_protocol_takes_the_group_along(mixed: Mixed, consumers: ConsumerStage) -> None:
    consumers.join("new", "leaves")
    assert isinstance(consumers.shard.groups["tea"], ConsumerGroup)
    assert consumers.shares()["new"] == 0, "old still has everything"
    assert mixed.owned["old"] == frozenset(range(6))
    assert CauseKind.PROTOCOL_MIGRATED in consumers.causes


def test_partitions_move_between_the_protocols_one_owner_at_a_time(mixed: Mixed, consumers: ConsumerStage) -> None:
    consumers.join("new", "leaves")
    assert mixed.heartbeat("old") is ErrorCode.REBALANCE_IN_PROGRESS
    mixed.join("old")
    mixed.sync("old")
    assert len(mixed.owned["old"]) == 3, "it is told what to keep"
    consumers.beat("new")
    assert consumers.shares()["new"] == 0, "old has not said yet that it let go"
    mixed.follow("old")
    consumers.settle("new")
    assert consumers.shares()["new"] == 3
    assert not mixed.owned["old"] & consumers.owned["new"]["leaves"]


def test_another_classic_member_may_join_the_moving_group(mixed: Mixed, consumers: ConsumerStage) -> None:
    consumers.join("new", "leaves")
    mixed.join("late")
    mixed.sync("late")
    for _ in range(4):
        mixed.follow("old", "late")
        consumers.beat("new")
    assert sorted([len(mixed.owned["old"]), len(mixed.owned["late"]), consumers.shares()["new"]]) == [2, 2, 2]


def test_when_the_last_of_the_newer_protocol_leaves_the_group_is_classic_again(
    mixed: Mixed, consumers: ConsumerStage
) -> None:
    consumers.join("new", "leaves")
    mixed.follow("old")
    consumers.settle("new")
    consumers.leave("new")
    group = consumers.shard.groups["tea"]
    assert isinstance(group, ClassicGroup)
    assert list(group.members) == ["old"]
    assert mixed.heartbeat("old") in {ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION}
    assert mixed.join("old").leader == "old"
    mixed.sync("old", {"old": frozenset(range(6))})
    assert mixed.owned["old"] == frozenset(range(6))


def test_when_the_last_of_the_newer_protocol_falls_silent_too(mixed: Mixed, consumers: ConsumerStage) -> None:
    consumers.join("new", "leaves")
    mixed.follow("old")
    for _ in range(10):
        consumers.wait(5_000)
        mixed.heartbeat("old")
    assert isinstance(consumers.shard.groups["tea"], ClassicGroup)


def test_when_the_last_classic_member_leaves_the_upgrade_is_complete(mixed: Mixed, consumers: ConsumerStage) -> None:
    consumers.join("new", "leaves")
    mixed.follow("old")
    assert mixed.leave("old") == [ErrorCode.NONE]
    consumers.settle("new")
    assert consumers.shares()["new"] == 6


def test_without_permission_the_protocols_do_not_mix(mixed: Mixed, consumers: ConsumerStage) -> None:
    consumers.set(migration_policy=MigrationPolicy.DISABLED)
    with pytest.raises(KafkaError) as refused:
        consumers.join("new", "leaves")
    assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND
    assert mixed.heartbeat("old") is ErrorCode.NONE


def test_without_permission_there_is_no_way_back(mixed: Mixed, consumers: ConsumerStage) -> None:
    consumers.set(migration_policy=MigrationPolicy.UPGRADE)
    consumers.join("new", "leaves")
    mixed.follow("old")
    consumers.leave("new")
    assert isinstance(consumers.shard.groups["tea"], ConsumerGroup)
    mixed.follow("old")
    assert mixed.owned["old"] == frozenset(range(6))


def test_a_group_that_is_not_understood_is_left_alone(mixed: Mixed, consumers: ConsumerStage) -> None:
    group = consumers.shard.classic_group("tea")
    group.members["old"].assignment = b"\x00"
    with pytest.raises(KafkaError):
        consumers.join("new", "leaves")
    assert mixed.heartbeat("old") is ErrorCode.NONE


def test_a_group_survives_a_crash_in_the_middle_of_its_move(mixed: Mixed, consumers: ConsumerStage) -> None:
    consumers.join("new", "leaves")
    mixed.join("old")
    mixed.sync("old")
    consumers.crash()
    mixed.follow("old")
    consumers.settle("new")
    assert consumers.shares()["new"] == 3
    assert not mixed.owned["old"] & consumers.owned["new"]["leaves"]


def test_a_downgraded_group_survives_a_crash(mixed: Mixed, consumers: ConsumerStage) -> None:
    consumers.join("new", "leaves")
    mixed.follow("old")
    consumers.leave("new")
    consumers.crash()
    group = consumers.shard.groups["tea"]
    assert isinstance(group, ClassicGroup)
    assert list(group.members) == ["old"]


def test_a_classic_member_that_does_not_rejoin_in_time_is_removed(mixed: Mixed, consumers: ConsumerStage) -> None:
    consumers.join("new", "leaves")
    for _ in range(12):
        mixed.heartbeat("old")
        consumers.wait(5_000)
        consumers.beat("new")
    assert consumers.shares()["new"] == 6
    assert CauseKind.SYNC_TIMED_OUT in consumers.causes


def test_an_empty_group_changes_its_protocol_freely(mixed: Mixed, consumers: ConsumerStage) -> None:
    mixed.leave("old")
    consumers.set(migration_policy=MigrationPolicy.DISABLED)
    consumers.join("new", "leaves")
    assert consumers.shares()["new"] == 6
    consumers.leave("new")
    mixed.generations.clear()
    mixed.join("older")
    assert isinstance(consumers.shard.groups["tea"], ClassicGroup)
