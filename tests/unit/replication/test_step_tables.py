"""The classic explanations of replication, step by step; each line of a table is one step and what is true after it."""

import pytest

from highwater.model.errors import KafkaError
from highwater.model.ids import LeaderEpoch, Offset
from highwater.replication.fencing import FencedLeaderEpoch, UnknownLeaderEpoch
from highwater.replication.truncation import EpochEnd
from highwater.testing.replica_group import MAX_LAG_MS, ReplicaGroup


def state(group: ReplicaGroup, *names: str) -> list[tuple[str, int]]:
    """Each replica's log and high watermark."""
    return [(group[name].texts, group[name].high_watermark) for name in names]


def test_a_followers_watermark_is_one_fetch_behind_its_leaders() -> None:
    group = ReplicaGroup("A", "B")
    group.elect("A")
    assert state(group, "A", "B") == [("", 0), ("", 0)]
    group.write("x")
    assert state(group, "A", "B") == [("x", 0), ("", 0)]
    group.fetch("B")  # gets x; the leader has yet to learn that it did
    assert state(group, "A", "B") == [("x", 0), ("x", 0)]
    group.fetch("B")  # asks for offset 1: the proof that it has x
    assert state(group, "A", "B") == [("x", 1), ("x", 1)]
    group.write("y")
    group.fetch("B")
    assert state(group, "A", "B") == [("xy", 1), ("xy", 1)]
    answer = group.answer("A", group.ask("B"))  # the leader commits y ...
    assert state(group, "A", "B") == [("xy", 2), ("xy", 1)]
    group.apply("B", answer)  # ... and its follower learns so
    assert state(group, "A", "B") == [("xy", 2), ("xy", 2)]


def a_follower_that_restarts_before_it_learns_the_watermark(*, truncates_by_high_watermark: bool) -> ReplicaGroup:
    """KIP-101, scenario 1: m is committed; the follower restarts before it learns so, then the leader dies."""
    group = ReplicaGroup("A", "B", truncates_by_high_watermark=truncates_by_high_watermark)
    group.elect("B")
    group.write("k")
    group.catch_up("A")
    offset = group.write("m")
    group.fetch("A")  # has m
    group.answer("B", group.ask("A"))  # the leader knows; the answer is lost
    assert group.is_committed(offset)
    assert state(group, "A", "B") == [("km", 1), ("km", 2)]
    group.crash("A")
    group.restart("A")
    group.crash("B")
    group.elect("A")
    return group


def test_nothing_committed_is_lost_when_a_follower_restarts_and_then_its_leader_dies() -> None:
    group = a_follower_that_restarts_before_it_learns_the_watermark(truncates_by_high_watermark=False)
    assert state(group, "A") == [("km", 2)]
    group.restart("B")
    group.tell("B")
    group.catch_up("B")
    assert group["A"].log == group["B"].log


def test_truncating_by_the_watermark_would_lose_it() -> None:
    """The reason for leader epochs: this is what happened before them."""
    group = a_follower_that_restarts_before_it_learns_the_watermark(truncates_by_high_watermark=True)
    assert state(group, "A") == [("k", 1)]


def two_power_cuts_and_the_shorter_log_returns_first(*, truncates_by_high_watermark: bool) -> ReplicaGroup:
    """KIP-101, scenario 2: both lose power, one loses m; it comes back first and takes n at the offset of m."""
    group = ReplicaGroup("A", "B", truncates_by_high_watermark=truncates_by_high_watermark)
    group.elect("A")
    for text in "km":
        group.write(text)
    group.catch_up("B")
    assert state(group, "A", "B") == [("km", 2), ("km", 2)]
    group.crash("A")
    group.crash("B", losing=1)
    group.restart("B")
    group.elect("B", unclean=True)
    group.write("n")
    group.restart("A")
    group.tell("A")
    group.catch_up("A")
    return group


def test_a_divergent_tail_is_cut_when_both_lost_power() -> None:
    group = two_power_cuts_and_the_shorter_log_returns_first(truncates_by_high_watermark=False)
    assert state(group, "A", "B") == [("kn", 2), ("kn", 2)]
    assert group["A"].log == group["B"].log


def test_truncating_by_the_watermark_would_leave_the_logs_different() -> None:
    group = two_power_cuts_and_the_shorter_log_returns_first(truncates_by_high_watermark=True)
    assert state(group, "A", "B") == [("km", 2), ("kn", 2)]


def test_two_fail_overs_in_a_row_leave_no_epoch_that_only_one_replica_knows() -> None:
    """KIP-279: the leader never heard of epoch 1, so it answers with the epoch before; with its end the tail is found.

    | epoch  | A             | B
    | 0      | a b c d       | a b
    | 1, B   |               | a b X Y
    | 2, A   | a b c d e     | a b X Y -> a b -> a b c d e
    """
    group = ReplicaGroup("A", "B")
    group.elect("A")
    for text in "ab":
        group.write(text)
    group.catch_up("B")
    for text in "cd":
        group.write(text)
    group.crash("A")
    group.elect("B")
    for text in "XY":
        group.write(text)
    group.crash("B")
    group.restart("A")
    group.elect("A", unclean=True)
    group.write("e")
    group.restart("B")
    group.tell("B")
    answer = group.fetch("B")
    assert answer.diverging == (0, 4), "of the epochs up to B's, the leader knows 0, which ends at 4"
    assert group["B"].texts == "ab", "and B's own epoch 0 ends at 2"
    group.catch_up("B")
    assert group["A"].log == group["B"].log
    assert group["B"].texts == "abcde"


def test_a_leader_that_wrote_nothing_still_finds_where_a_follower_diverges() -> None:
    """The leader's epoch begins in its history when it is elected, not with its first record."""
    group = ReplicaGroup("A", "B")
    group.elect("A")
    group.write("a")
    group.catch_up("B")
    group.elect("B", tell=["B"])
    group.write("X")
    group.crash("B")
    group.elect("A", unclean=True)
    group.restart("B")
    group.tell("B")
    group.catch_up("B")
    assert group["A"].texts == group["B"].texts == "a"


def test_a_leader_that_became_a_follower_without_writing_agrees_at_once() -> None:
    """An epoch that is in a replica's history without records is no divergence that goes on for ever."""
    group = ReplicaGroup("A", "B")
    group.elect("A")
    group.write("a")
    group.catch_up("B")
    group.elect("B")
    group.elect("A")
    group.catch_up("B")
    assert group["A"].log == group["B"].log


def test_a_fetch_from_an_old_epoch_is_fenced_and_commits_nothing() -> None:
    """KIP-320: B still follows as of epoch 0; its log may be cut when it learns of epoch 2, so it proves nothing."""
    group = ReplicaGroup("A", "B", "C")
    group.elect("A")
    group.write("a")
    group.catch_up("B")
    group.catch_up("C")
    stale = group.ask("B")
    group.elect("C", tell=["A", "C"])
    group.elect("A", tell=["A", "C"])
    group.write("b")
    with pytest.raises(FencedLeaderEpoch):
        group.answer("A", stale._replace(offset=Offset(2)))
    assert group["A"].high_watermark == 1


def test_a_follower_that_knows_a_newer_leader_is_not_served_by_the_old_one() -> None:
    """KIP-320: A has not heard that it was replaced. Its answers would be those of a log that is about to be cut."""
    group = ReplicaGroup("A", "B", "C")
    group.elect("A")
    group.elect("B", tell=["B", "C"])
    with pytest.raises(UnknownLeaderEpoch):
        group.answer("A", group.ask("C"))


def test_an_answer_from_an_old_leader_truncates_nothing() -> None:
    """Truncation itself is fenced: the answer was on its way when the follower learnt of a new leader."""
    group = ReplicaGroup("A", "B", "C")
    group.elect("A")
    group.write("a")
    group.catch_up("B")
    group.catch_up("C")
    group.write("b")
    group.fetch("B")
    late = group.answer("A", group.ask("B"))._replace(diverging=EpochEnd(LeaderEpoch(0), Offset(1)))
    group.elect("C")
    group.apply("B", late)
    assert group["B"].texts == "ab"


def test_a_zombie_leader_commits_nothing_more() -> None:
    """A goes on writing after it was replaced; nobody with the new epoch fetches from it, so nothing is committed."""
    group = ReplicaGroup("A", "B")
    group.elect("A")
    group.write("a")
    group.catch_up("B")
    group.elect("B", tell=["B"])
    group.write("z", to="A")
    with pytest.raises(UnknownLeaderEpoch):
        group.answer("A", group.ask("B"))
    group.now_ms += MAX_LAG_MS + 1
    zombie = group["A"].leading
    assert zombie is not None
    assert not group.propose(zombie.propose_shrinking(now_ms=group.now_ms)), "its conditional write is refused"
    group.write("y", to="A")
    assert group["A"].high_watermark == 1, "so it still waits for B"
    group.write("b")
    group.tell("A")
    group.catch_up("A")
    assert group["A"].texts == group["B"].texts == "ab"


def test_in_sync_replicas_shrunk_to_one_and_that_one_lost() -> None:
    """Jepsen on Kafka, 2013: what the last one in sync acknowledged is lost if another may lead. None may: it waits."""
    group = ReplicaGroup("A", "B")
    group.elect("A")
    group.write("a")
    group.catch_up("B")
    offset = group.write("b")
    group.now_ms += MAX_LAG_MS + 1
    assert group.shrink()
    assert group.isr == (0,)
    assert group.is_committed(offset)
    group.crash("A")
    assert group.electable() == []
    group.restart("A")
    assert group.electable() == ["A"]
    group.elect("A")
    group.tell("B")
    group.catch_up("B")
    assert group["B"].texts == "ab"


def test_a_follower_cannot_write() -> None:
    group = ReplicaGroup("A", "B")
    group.elect("A")
    with pytest.raises(KafkaError, match="not the leader"):
        group.write("a", to="B")
