"""Mistakes that others have shipped, staged on running brokers: here nothing is lost."""

from collections.abc import Callable
from typing import Any

from highwater.broker.partition import Partition
from highwater_sim.machine import Machine


def log_of(machine: Machine) -> Any:
    """The log of the partition that is written to, on a broker that runs."""
    assert machine.node is not None
    partition = machine.node.partitions.get("t", 0)
    assert isinstance(partition, Partition)
    return partition.log


def test_a_follower_restarts_and_then_its_leader_dies(scene: Callable[..., Any]) -> None:
    """KIP-101, the first scenario: the follower's watermark is behind; cutting there would lose what is committed."""
    stage = scene()
    acknowledged = [stage.write_for_sure() for _ in range(5)]
    follower = stage.followers[0]
    follower.kill()
    follower.start()
    stage.wait_for(lambda: follower.is_serving)
    stage.leader.kill()
    stage.wait_for(lambda: stage.state.leader > 0 and stage.leader.is_serving)
    assert {send.value for send in acknowledged} <= stage.contents()


def test_two_logs_that_parted_while_both_lost_power_agree_again(scene: Callable[..., Any]) -> None:
    """KIP-101, the second scenario: records at the same offsets, of different leaders."""
    stage = scene()
    stage.write()
    old = stage.leader
    stage.isolate(old)
    for _ in range(3):
        stage.write(acks=1)  # to the old leader's log alone
    old.lose_power()
    stage.cluster.network.heal()
    stage.wait_for(lambda: stage.state.leader > 0 and stage.leader is not old)
    kept = [stage.write_for_sure() for _ in range(3)]
    for machine in stage.cluster.machines:
        machine.kill()
        machine.start()
    stage.wait_for(stage.all_in_sync)
    ends = {machine.node.partitions.get("t", 0).log.log_end_offset for machine in stage.cluster.machines}
    assert len(ends) == 1
    assert {send.value for send in kept} <= stage.contents()


def test_two_fail_overs_in_a_row_leave_no_divergent_tail(scene: Callable[..., Any]) -> None:
    """KIP-279: a replica that missed an epoch in between must be cut to what it shares with the newest leader."""
    stage = scene()
    stage.write()
    first = stage.leader
    stage.isolate(first)
    stage.write(acks=1)
    first.kill()
    stage.cluster.network.heal()
    stage.wait_for(lambda: stage.state.leader > 0 and stage.leader is not first)
    second = stage.leader
    stage.write_for_sure()
    first.start()
    stage.wait_for(stage.all_in_sync)
    second.kill()
    stage.wait_for(lambda: stage.state.leader > 0 and stage.leader is not second)
    kept = stage.write_for_sure()
    second.start()
    stage.wait_for(stage.all_in_sync)
    assert kept.value in stage.contents()


def test_the_last_in_sync_replica_dies_and_nobody_else_may_lead(scene: Callable[..., Any]) -> None:
    """Jepsen on Kafka, 2013: the in-sync set shrank to one, whose writes were acknowledged and then lost."""
    stage = scene(min_insync_replicas="1")
    alone = stage.leader
    stage.isolate(alone)
    stage.write(acks=1)  # from now on the others lag
    stage.wait_for(lambda: stage.state.isr == (alone.broker_id,))
    acknowledged = stage.write_for_sure()
    alone.kill()
    stage.cluster.network.heal()
    stage.wait_for(lambda: stage.state.leader < 0)
    stage.pass_time(10.0)
    assert stage.state.leader < 0
    alone.start()
    stage.wait_for(stage.all_in_sync)
    assert acknowledged.value in stage.contents()


def test_a_leader_that_was_paused_for_long_commits_nothing_more(scene: Callable[..., Any]) -> None:
    """KIP-320: fetches and writes of an old epoch count no more."""
    stage = scene()
    old = stage.leader
    stage.write()
    old.pause()
    stage.wait_for(lambda: stage.state.leader > 0 and stage.leader is not old)
    kept = [stage.write_for_sure() for _ in range(3)]
    old.resume()
    stage.wait_for(stage.all_in_sync)
    assert {send.value for send in kept} <= stage.contents()


def test_what_a_leader_has_deleted_is_not_kept_by_a_follower_that_has_something_else_there(
    scene: Callable[..., Any],
) -> None:
    """The leader began where the follower ended, and had forgotten who wrote what was before.

    Nothing showed that they differed there. Where a log begins is written down once a minute: after a crash the
    follower had records again that were never committed, where others had been.
    """
    stage = scene(segment_bytes="100")  # a segment for each batch
    stage.write_for_sure()
    old = stage.leader
    stage.isolate(old)
    for number in range(3):
        stage.write(acks=1, values=[f"never committed {number}"])
    end = log_of(old).log_end_offset
    old.kill()
    stage.cluster.network.heal()
    stage.wait_for(lambda: stage.state.leader > 0 and stage.leader is not old)
    new = stage.leader
    while log_of(new).log_end_offset < end + 2:
        stage.write(values=["kept"])
    stage.delete_before(end)
    stage.wait_for(lambda: log_of(new).segments[0].base_offset == end)
    old.start()
    stage.wait_for(stage.all_in_sync)
    assert log_of(old).segments[0].base_offset == end
