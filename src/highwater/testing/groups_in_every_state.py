"""One group in every state of its life, and what must be true of each when its coordinator dies there.

scene = GroupsInEveryState(topic)     # a topic of six partitions
scene.set_up(bootstraps)              # groups of one coordinator, each stopped in another state
broker.kill(); broker.start()         # or another broker takes over
scene.check_all_carry_on(bootstraps)
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, NamedTuple

from highwater.model.coordinator_partition import partition_for
from highwater.model.errors import ErrorCode
from highwater.protocol.messages.consumer_group_heartbeat import TopicPartitions
from highwater.protocol.messages.join_group import JoinGroupResponse
from highwater.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse, MemberIdentity
from highwater.protocol.messages.sync_group import SyncGroupResponse
from highwater.testing.group_requests import (
    JOIN_LATEST,
    SYNC_LATEST,
    a_commit,
    a_join,
    a_sync,
    commit,
    committed,
    coordinator_of,
    enter,
    heartbeat,
    rejoin,
    sync_as_leader,
)
from highwater.testing.waiting import wait_until
from highwater.testing.wire_consumer_group import WireConsumerGroup

if TYPE_CHECKING:
    from highwater.testing.wire import WireClient

COMMITTED: Final = 42
PARTITIONS: Final = 6


class Member(NamedTuple):
    """Of a classic group: who it is, and the generation that it was told of."""

    id: str
    generation: int


def _named(stem: str) -> str:
    """Return a name whose group shares its coordinator with all the others."""
    names = (f"{stem}-{number}" for number in itertools.count())
    return next(name for name in names if partition_for(name) == 0)


EMPTY: Final = _named("empty")
WITHOUT_MEMBERS: Final = _named("without-members")
STABLE: Final = _named("stable")
PREPARING_REBALANCE: Final = _named("preparing-rebalance")
COMPLETING_REBALANCE: Final = _named("completing-rebalance")
COMPLETING_FIRST: Final = _named("completing-first-rebalance")
CONSUMER_STABLE: Final = _named("consumer-stable")
CONSUMER_RECONCILING: Final = _named("consumer-reconciling")

WITH_OFFSETS: Final = (EMPTY, WITHOUT_MEMBERS, STABLE, PREPARING_REBALANCE, COMPLETING_REBALANCE)


class GroupsInEveryState:
    """Classic groups in each of their states, consumer groups at rest and with partitions on their way."""

    def __init__(self, topic: str) -> None:
        """`topic` has six partitions."""
        self._topic = topic
        self._members: dict[str, Member] = {}
        self._newcomer_id = ""
        self._consumers: dict[str, WireConsumerGroup] = {}

    # Before ---------------------------------------------------------------------------------------------------------

    def set_up(self, bootstraps: list[str]) -> None:
        """Bring every group into its state."""
        with coordinator_of(STABLE, bootstraps) as wire, coordinator_of(STABLE, bootstraps) as waits:
            assert commit(wire, a_commit(WITHOUT_MEMBERS, self._topic, COMMITTED)) is ErrorCode.NONE
            for group in (EMPTY, STABLE, PREPARING_REBALANCE, COMPLETING_REBALANCE):
                self._settle(wire, group)
            leavers = [MemberIdentity(member_id=self._members[EMPTY].id)]
            wire.call(LeaveGroupRequest(group_id=EMPTY, members=leavers), LeaveGroupResponse, 5)
            self._let_one_more_ask(wire, waits)
            for group, joined in (
                (COMPLETING_REBALANCE, rejoin(wire, COMPLETING_REBALANCE, self._members[COMPLETING_REBALANCE].id)),
                (COMPLETING_FIRST, enter(wire, COMPLETING_FIRST)),
            ):
                self._members[group] = Member(joined.member_id, joined.generation_id)
            for group in (CONSUMER_STABLE, CONSUMER_RECONCILING):
                consumers = self._consumers[group] = WireConsumerGroup(wire, group)
                consumers.join("ana", self._topic)
                consumers.settle({"ana": PARTITIONS})
            self._consumers[CONSUMER_RECONCILING].join("ben", self._topic)

    def _settle(self, wire: WireClient, group: str) -> None:
        """Let one member join, get its assignment and commit."""
        joined = enter(wire, group)
        sync_as_leader(wire, group, joined)
        member = self._members[group] = Member(joined.member_id, joined.generation_id)
        assert self._commit(wire, group, member, COMMITTED) is ErrorCode.NONE

    def _let_one_more_ask(self, wire: WireClient, waits: WireClient) -> None:
        """Let another join a stable group, which waits for the first to join again."""
        group, first = PREPARING_REBALANCE, self._members[PREPARING_REBALANCE]
        self._newcomer_id = waits.call(a_join(group), JoinGroupResponse, JOIN_LATEST).member_id
        waits.send(a_join(group, self._newcomer_id), JOIN_LATEST)
        wait_until(
            lambda: heartbeat(wire, group, first.id, first.generation) is ErrorCode.REBALANCE_IN_PROGRESS,
            "the rebalance",
        )

    def _commit(self, wire: WireClient, group: str, member: Member, offset: int) -> ErrorCode:
        who = {"member_id": member.id, "generation_id_or_member_epoch": member.generation}
        return commit(wire, a_commit(group, self._topic, offset, **who))

    # After ----------------------------------------------------------------------------------------------------------

    def check_all_carry_on(self, bootstraps: list[str]) -> None:
        """Check that nothing committed is lost, and that each group goes on from where it was."""
        with coordinator_of(STABLE, bootstraps) as wire, coordinator_of(STABLE, bootstraps) as newcomer:
            for group in WITH_OFFSETS:
                assert committed(wire, group) == {(self._topic, 0): COMMITTED}, group
            assert enter(wire, EMPTY).generation_id > self._members[EMPTY].generation
            self._check_carries_on(wire, STABLE)
            self._check_carries_on(wire, PREPARING_REBALANCE)
            self._check_newcomer_can_join(wire, newcomer)
            self._check_unfinished_generation_is_made_anew(wire)
            self._check_consumers(wire)

    def _check_carries_on(self, wire: WireClient, group: str) -> None:
        """A generation whose assignments were given out stands."""
        member = self._members[group]
        assert heartbeat(wire, group, member.id, member.generation) is ErrorCode.NONE
        assert self._commit(wire, group, member, COMMITTED + 1) is ErrorCode.NONE

    def _check_newcomer_can_join(self, wire: WireClient, newcomer: WireClient) -> None:
        """A member that was never told a generation is not known any more, and joins as a new one."""
        group, first = PREPARING_REBALANCE, self._members[PREPARING_REBALANCE]
        refused = newcomer.call(a_join(group, self._newcomer_id), JoinGroupResponse, JOIN_LATEST)
        assert refused.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        new_id = newcomer.call(a_join(group), JoinGroupResponse, JOIN_LATEST).member_id
        waiting = newcomer.send(a_join(group, new_id), JOIN_LATEST)
        joined = rejoin(wire, group, first.id)
        assert newcomer.receive(JoinGroupResponse, JOIN_LATEST, waiting).generation_id == joined.generation_id
        assert {member.member_id for member in joined.members} == {first.id, new_id}
        assert joined.generation_id == first.generation + 1

    def _check_unfinished_generation_is_made_anew(self, wire: WireClient) -> None:
        """A generation that nobody had an assignment of is refused, and the next attempt succeeds."""
        for group, error in (
            (COMPLETING_REBALANCE, ErrorCode.ILLEGAL_GENERATION),
            (COMPLETING_FIRST, ErrorCode.UNKNOWN_MEMBER_ID),
        ):
            member = self._members[group]
            late = a_sync(group, member.id, member.generation, {member.id: b"all"})
            assert wire.call(late, SyncGroupResponse, SYNC_LATEST).error_code == error
        again = rejoin(wire, COMPLETING_REBALANCE, self._members[COMPLETING_REBALANCE].id)
        sync_as_leader(wire, COMPLETING_REBALANCE, again)
        sync_as_leader(wire, COMPLETING_FIRST, enter(wire, COMPLETING_FIRST))

    def _check_consumers(self, wire: WireClient) -> None:
        """Epochs stand, and a partition still moves only after its owner has given it up."""
        stable, reconciling = self._consumers[CONSUMER_STABLE], self._consumers[CONSUMER_RECONCILING]
        stable.wire = reconciling.wire = wire
        epoch = stable.epochs["ana"]
        stable.beat("ana")
        assert (stable.epochs["ana"], stable.share("ana")) == (epoch, PARTITIONS)
        owned = [
            TopicPartitions(topic_id=each, partitions=all_of_it)
            for each, all_of_it in reconciling.assigned["ana"].items()
        ]
        reconciling.report("ana", topic_partitions=owned)
        reconciling.beat("ben")
        assert (reconciling.share("ana"), reconciling.share("ben")) == (PARTITIONS // 2, 0)
        reconciling.settle({"ana": PARTITIONS // 2, "ben": PARTITIONS // 2})
