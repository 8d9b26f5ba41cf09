"""What a leader decides: what is committed, who is in sync, who is refused."""

import pytest

from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import BrokerId, LeaderEpoch, Offset
from highwater.replication.fencing import FencedLeaderEpoch, UnknownLeaderEpoch, check_epoch, check_replica_epoch
from highwater.replication.leader import IsrProposal, LeaderState

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
MAX_LAG_MS = 10_000


def a_leader(*, isr: tuple[BrokerId, ...] = (ONE, TWO), end_offset: int = 10) -> LeaderState:
    return LeaderState(
        ONE,
        epoch=LeaderEpoch(5),
        replicas=(ONE, TWO, THREE),
        isr=isr,
        isr_version=7,
        end_offset=Offset(end_offset),
        max_lag_ms=MAX_LAG_MS,
        now_ms=0,
    )


def watermark(leader: LeaderState, current: int = 0, now_ms: int = 0) -> int:
    return leader.high_watermark(Offset(current), own_end=leader.end_offset, now_ms=now_ms)


def test_the_watermark_waits_for_the_slowest_that_is_in_sync() -> None:
    leader = a_leader(isr=(ONE, TWO, THREE))
    leader.fetched(TWO, Offset(10), now_ms=1)
    assert watermark(leader) == 0, "nothing is known of the third"
    leader.fetched(THREE, Offset(4), now_ms=1)
    assert watermark(leader) == 4
    leader.fetched(THREE, Offset(2), now_ms=1)
    assert watermark(leader, current=4) == 4, "it never moves back"


def test_the_watermark_waits_for_our_own_sync_too() -> None:
    leader = a_leader()
    leader.fetched(TWO, Offset(10), now_ms=1)
    assert leader.high_watermark(Offset(0), own_end=Offset(7), now_ms=1) == 7


def test_a_replica_that_is_proposed_holds_the_watermark_before_the_proposal_is_agreed_upon() -> None:
    """A replica may never join behind the watermark (KIP-497, maximal in-sync replicas)."""
    leader = a_leader(isr=(ONE,))
    leader.fetched(TWO, Offset(10), now_ms=1)
    assert leader.propose_growth(Offset(10), now_ms=1) == IsrProposal(ONE, LeaderEpoch(5), (ONE, TWO), 7)
    leader.appended(Offset(12), now_ms=2)
    assert watermark(leader, current=10, now_ms=2 + 10 * MAX_LAG_MS) == 10
    assert leader.isr == (ONE,), "only what the cluster agreed upon counts for min.insync.replicas"


def test_a_replica_that_is_about_to_leave_holds_the_watermark_until_it_has_left() -> None:
    leader = a_leader()
    now_ms = MAX_LAG_MS + 1
    assert leader.propose_shrinking(now_ms=now_ms) == IsrProposal(ONE, LeaderEpoch(5), (ONE,), 7)
    assert watermark(leader, now_ms=now_ms) == 0
    leader.isr_committed((ONE,), 8)
    assert watermark(leader, now_ms=now_ms) == 10


def test_a_caught_up_replica_that_is_not_in_sync_yet_is_waited_for() -> None:
    """Otherwise it would be left behind again while its joining is being agreed upon (C3)."""
    leader = a_leader(isr=(ONE, TWO))
    leader.fetched(TWO, Offset(10), now_ms=1)
    leader.fetched(THREE, Offset(10), now_ms=1)
    leader.appended(Offset(12), now_ms=2)
    leader.fetched(TWO, Offset(12), now_ms=3)
    assert watermark(leader, now_ms=3) == 10
    assert watermark(leader, now_ms=3 + MAX_LAG_MS) == 12, "but not for ever"


def test_merely_fetching_is_not_being_caught_up() -> None:
    """A follower that fetches all the time and falls behind all the time leaves."""
    leader = a_leader()
    for now_ms in range(1000, MAX_LAG_MS + 2000, 1000):
        leader.appended(Offset(leader.end_offset + 100), now_ms=now_ms)
        leader.fetched(TWO, Offset(now_ms // 1000), now_ms=now_ms)
    assert leader.propose_shrinking(now_ms=MAX_LAG_MS + 2000) is not None


def test_a_follower_one_fetch_behind_a_busy_leader_is_in_sync() -> None:
    leader = a_leader()
    behind = leader.end_offset
    for now_ms in range(1000, 3 * MAX_LAG_MS, 1000):
        leader.appended(Offset(leader.end_offset + 100), now_ms=now_ms)
        leader.fetched(TWO, behind, now_ms=now_ms)
        behind = leader.end_offset
    assert leader.propose_shrinking(now_ms=3 * MAX_LAG_MS) is None


def test_a_follower_of_an_idle_partition_stays_in_sync() -> None:
    """Its fetch session does not mention the partition; it has all, so it is caught up until something is appended."""
    leader = a_leader()
    leader.fetched(TWO, Offset(10), now_ms=1)
    an_hour_ms = 3_600_000
    assert leader.propose_shrinking(now_ms=an_hour_ms) is None
    leader.appended(Offset(11), now_ms=an_hour_ms)
    assert leader.propose_shrinking(now_ms=an_hour_ms + MAX_LAG_MS) is None
    assert leader.propose_shrinking(now_ms=an_hour_ms + MAX_LAG_MS + 1) is not None


def test_a_replica_joins_when_it_has_reached_the_watermark_and_the_start_of_the_epoch() -> None:
    """Our watermark may be behind our predecessor's; what is below the start of our epoch may be committed (C5)."""
    leader = a_leader(isr=(ONE,), end_offset=10)
    leader.fetched(TWO, Offset(9), now_ms=1)
    assert leader.propose_growth(Offset(5), now_ms=1) is None
    leader.fetched(TWO, Offset(10), now_ms=2)
    assert leader.propose_growth(Offset(11), now_ms=2) is None
    assert leader.propose_growth(Offset(10), now_ms=2) is not None


def test_one_proposal_at_a_time_and_each_with_the_version_of_the_last() -> None:
    leader = a_leader(isr=(ONE,))
    leader.fetched(TWO, Offset(10), now_ms=1)
    assert leader.propose_growth(Offset(10), now_ms=1) is not None
    leader.fetched(THREE, Offset(10), now_ms=1)
    assert leader.propose_growth(Offset(10), now_ms=1) is None
    leader.isr_committed((ONE, TWO), 8)
    grown = leader.propose_growth(Offset(10), now_ms=2)
    assert grown == IsrProposal(ONE, LeaderEpoch(5), (ONE, TWO, THREE), 8)


def test_an_answer_that_comes_late_changes_nothing() -> None:
    leader = a_leader()
    leader.isr_committed((ONE,), 9)
    leader.isr_committed((ONE, TWO), 8)
    assert leader.isr == (ONE,)


def test_a_leader_that_was_overtaken_proposes_nothing_more() -> None:
    leader = a_leader()
    now_ms = MAX_LAG_MS + 1
    assert leader.propose_shrinking(now_ms=now_ms) is not None
    leader.overtaken()
    assert leader.propose_shrinking(now_ms=2 * now_ms) is None
    assert watermark(leader, now_ms=2 * now_ms) == 0, "and what it proposed to remove still counts"


def test_a_broker_that_holds_no_replica_tells_us_nothing() -> None:
    with pytest.raises(KafkaError) as refused:
        a_leader().fetched(BrokerId(9), Offset(10), now_ms=1)
    assert refused.value.code == ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_clients_may_leave_out_the_epoch_and_replicas_may_not() -> None:
    check_epoch(-1, 5)
    check_epoch(5, 5)
    with pytest.raises(FencedLeaderEpoch):
        check_epoch(4, 5)
    with pytest.raises(UnknownLeaderEpoch):
        check_epoch(6, 5)
    with pytest.raises(FencedLeaderEpoch):
        check_replica_epoch(-1, 5)
