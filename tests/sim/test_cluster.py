"""The shipped broker, three times, in virtual time."""

import asyncio
import errno
import functools
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

import pytest

from highwater.broker.peer import Peer
from highwater.coordination import paths
from highwater.coordination.records import ListenerAddress, PartitionStateRecord, TopicRecord, decode_controller
from highwater.model.errors import ErrorCode
from highwater.model.ids import BrokerId
from highwater.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from highwater.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from highwater.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from highwater.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from highwater.protocol.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions
from highwater.protocol.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from highwater.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from highwater.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from highwater.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from highwater.protocol.records.record import build_batch, numbered
from highwater.protocol.schema import Message
from highwater_history.history import History, Place, Poll
from highwater_sim import nearby_consumer
from highwater_sim.agreement import disagreements
from highwater_sim.cluster import Cluster
from highwater_sim.coordination import STORE_HOST
from highwater_sim.machine import DATA, LOG_DIRS, PORT, Machine
from highwater_sim.nearby_consumer import NearbyConsumer
from highwater_sim.rest import unrest
from highwater_sim.simulation import without_collector

T = TypeVar("T")
ResponseT = TypeVar("ResponseT", bound=Message)


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    cluster = Cluster(seed=7)
    with without_collector(cluster.dispose):
        cluster.start()
        cluster.scheduler.run_until(2.0)
        yield cluster
    assert not cluster.bugs


def finished(cluster: Cluster, work: Coroutine[Any, Any, int]) -> int:
    """Let time pass until something that is asked of the cluster has its answer."""
    result: int = cluster.run_until_done(cluster.spawn(work), within_s=30)
    return result


def controller(cluster: Cluster) -> int:
    return decode_controller(paths.CONTROLLER, cluster.store.read(paths.CONTROLLER).data)


async def create(broker: int, name: str) -> int:
    peer = Peer(ListenerAddress(f"broker{broker}", PORT), client_id="test", timeout_s=10)
    topic = CreatableTopic(name=name, num_partitions=2, replication_factor=3)
    answer = await peer.ask(CreateTopicsRequest(topics=[topic], timeout_ms=9000), CreateTopicsResponse, version=7)
    return answer.topics[0].error_code


def test_three_brokers_elect_a_controller_and_make_a_topic(cluster: Cluster) -> None:
    assert all(machine.is_serving for machine in cluster.machines)
    assert cluster.run_until_done(cluster.spawn(create(controller(cluster), "t")), within_s=10) == 0
    for machine in cluster.machines:
        assert machine.node is not None
        assert {str(partition.name) for partition in machine.node.partitions} == {"t-0", "t-1"}


def test_another_broker_becomes_the_controller_when_it_is_killed(cluster: Cluster) -> None:
    before = controller(cluster)
    cluster.machine(before).kill()
    cluster.scheduler.run_until(cluster.scheduler.now + 2.0)
    after = controller(cluster)
    assert after != before
    assert cluster.run_until_done(cluster.spawn(create(after, "t")), within_s=10) in {0, 38}


async def grow_and_move(broker: int, name: str) -> list[int]:
    """Give a topic a third partition and turn round the replicas of its first, both at once; return what was said."""
    growing, moving = (Peer(ListenerAddress(f"broker{broker}", PORT), client_id="test", timeout_s=10) for _ in range(2))
    wanted = CreatePartitionsTopic(name=name, count=3, assignments=None)
    partition = ReassignablePartition(partition_index=0, replicas=[3, 2, 1])
    move = ReassignableTopic(name=name, partitions=[partition])
    grown, moved = await asyncio.gather(
        growing.ask(CreatePartitionsRequest(topics=[wanted], timeout_ms=9000), CreatePartitionsResponse, version=3),
        moving.ask(
            AlterPartitionReassignmentsRequest(topics=[move], timeout_ms=9000),
            AlterPartitionReassignmentsResponse,
            version=0,
        ),
    )
    return [grown.results[0].error_code, moved.responses[0].partitions[0].error_code]


def test_a_topic_that_grows_while_it_is_moved_keeps_all_its_partitions(cluster: Cluster) -> None:
    """Neither of the two changes of its record is written over the other."""
    for number in range(20):
        name = f"t{number}"
        assert cluster.run_until_done(cluster.spawn(create(controller(cluster), name)), within_s=10) == 0
        grown, moved = cluster.run_until_done(cluster.spawn(grow_and_move(controller(cluster), name)), within_s=10)
        assert grown in {ErrorCode.NONE, ErrorCode.REASSIGNMENT_IN_PROGRESS}
        assert moved == ErrorCode.NONE
        cluster.scheduler.run_until(cluster.scheduler.now + 1.0)
        record = TopicRecord.decode(paths.topic(name), cluster.store.read(paths.topic(name)).data)
        assert record.replicas[0] == (3, 2, 1)
        assert list(record.replicas) == ([0, 1, 2] if grown == ErrorCode.NONE else [0, 1])


async def ask(broker: int, request: Message, response: type[ResponseT], version: int) -> ResponseT:
    peer = Peer(ListenerAddress(f"broker{broker}", PORT), client_id="test", timeout_s=10)
    try:
        return await peer.ask(request, response, version=version)
    finally:
        peer.close()


async def move(broker: int, name: str, replicas: Sequence[int], index: int = 0) -> int:
    """Have a partition of a topic moved; return what was said."""
    topic = ReassignableTopic(
        name=name,
        partitions=[ReassignablePartition(partition_index=index, replicas=[BrokerId(one) for one in replicas])],
    )
    request = AlterPartitionReassignmentsRequest(topics=[topic], timeout_ms=9000)
    answer = await ask(broker, request, AlterPartitionReassignmentsResponse, 0)
    return answer.responses[0].partitions[0].error_code


async def elect_preferred(broker: int, name: str) -> int:
    """Have the preferred replica of a topic's first partition lead it; return what was said."""
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(topic=name, partitions=[0])], timeout_ms=1000)
    answer = await ask(broker, request, ElectLeadersResponse, 2)
    return answer.replica_election_results[0].partition_result[0].error_code


def test_a_replica_that_should_go_is_not_told_to_follow_the_next_leader_instead(cluster: Cluster) -> None:
    """Or else its leader calls it in sync, the controller says that it is not, and so on for ever."""
    run = functools.partial(finished, cluster)

    def state() -> PartitionStateRecord:
        path = paths.partition_state("t", 0)
        return PartitionStateRecord.decode(path, cluster.store.read(path).data)

    boss = controller(cluster)
    assert run(create(boss, "t")) == ErrorCode.NONE
    leader = state().leader
    going = next(machine.broker_id for machine in cluster.machines if machine.broker_id not in {boss, leader})
    other = next(machine.broker_id for machine in cluster.machines if machine.broker_id not in {going, leader})
    for pair in ((boss, going), (going, boss)):
        cluster.network.block(*(f"broker{number}" for number in pair))
    assert run(move(boss, "t", [other, leader])) == ErrorCode.NONE
    cluster.scheduler.run_until(cluster.scheduler.now + 1.0)
    run(elect_preferred(boss, "t"))
    assert state().leader == other
    cluster.network.heal()
    cluster.scheduler.run_until(cluster.scheduler.now + 5.0)
    record = TopicRecord.decode(paths.topic("t"), cluster.store.read(paths.topic("t")).data)
    assert record.replicas[0] == (other, leader)
    assert (state().leader, set(state().isr)) == (other, {other, leader})
    assert state().leader_epoch == 2
    there = cluster.machine(going).node
    assert there is not None
    assert {str(partition.name) for partition in there.partitions} == {"t-1"}


def test_a_broker_that_is_about_to_leave_is_not_called_in_sync_again_and_again(scene: Callable[..., Any]) -> None:
    """It may have to wait for others before it goes: here, until all know who leads."""
    on_stage = scene()
    on_stage.wait_for(on_stage.all_in_sync)
    leaving = on_stage.cluster.machine(controller(on_stage.cluster))
    other = next(machine for machine in on_stage.followers if machine is not leaving)
    on_stage.cluster.network.block(leaving.name, other.name)
    before = on_stage.state.leader_epoch
    leaving.stop()
    on_stage.pass_time(5.0)
    assert leaving.is_up, "it still waits"
    assert leaving.broker_id not in on_stage.state.isr
    assert on_stage.state.leader_epoch <= before + 2
    sent = on_stage.write_for_sure()
    assert sent.done_at - sent.at < 1.0, "nobody waits for who does not fetch"


def test_what_an_administrator_asked_for_is_done_even_if_it_hangs_up(cluster: Cluster) -> None:
    """A leader that is written down and told to nobody would lead nothing, and nobody would look at it again."""

    async def ask_and_hang_up(after_s: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(after_s):
                await elect_preferred(boss, name)

    boss = controller(cluster)
    for number in range(30):
        name = f"t{number}"
        assert cluster.run_until_done(cluster.spawn(create(boss, name)), within_s=10) == ErrorCode.NONE
        record = TopicRecord.decode(paths.topic(name), cluster.store.read(paths.topic(name)).data)
        others_first = list(reversed(record.replicas[0]))
        assert cluster.run_until_done(cluster.spawn(move(boss, name, others_first)), within_s=10) == ErrorCode.NONE
        cluster.scheduler.run_until(cluster.scheduler.now + 0.2)
        cluster.run_until_done(cluster.spawn(ask_and_hang_up(0.0005 + number * 0.0001)), within_s=10)
    cluster.scheduler.run_until(cluster.scheduler.now + 2.0)
    assert disagreements(cluster) == []


def test_what_a_topic_left_on_a_broker_is_not_taken_for_that_of_the_next(cluster: Cluster) -> None:
    """A broker is away while a topic moves from it, is deleted, and made anew on all brokers. It is kept, though."""
    run = functools.partial(finished, cluster)

    boss = controller(cluster)
    assert run(create(boss, "t")) == ErrorCode.NONE
    for index in (0, 1):
        assert run(produce(cluster, "t", index)) == ErrorCode.NONE
    away = next(machine for machine in cluster.machines if machine.broker_id != boss)
    staying = [machine.broker_id for machine in cluster.machines if machine is not away]
    away.kill()
    cluster.scheduler.run_until(cluster.scheduler.now + 2.0)
    for index in (0, 1):
        assert run(move(boss, "t", staying, index)) == ErrorCode.NONE
    cluster.scheduler.run_until(cluster.scheduler.now + 1.0)
    assert run(delete(boss, "t")) == ErrorCode.NONE
    assert folders(away) == {"t-0", "t-1"}
    away.start()
    cluster.scheduler.run_until(cluster.scheduler.now + 2.0)
    assert run(create(boss, "t")) == ErrorCode.NONE
    cluster.scheduler.run_until(cluster.scheduler.now + 1.0)
    for machine in cluster.machines:
        assert machine.node is not None
        assert {str(held.name): held.log.log_end_offset for held in machine.node.partitions} == {"t-0": 0, "t-1": 0}
    assert {"t-0", "t-1", "t-0.1-stray", "t-1.2-stray"} <= folders(away)


def test_what_moved_away_from_a_broker_that_was_not_there_is_deleted_when_it_returns(cluster: Cluster) -> None:
    run = functools.partial(finished, cluster)

    boss = controller(cluster)
    assert run(create(boss, "t")) == ErrorCode.NONE
    assert run(produce(cluster, "t", 0)) == ErrorCode.NONE
    away = next(machine for machine in cluster.machines if machine.broker_id != boss)
    staying = [machine.broker_id for machine in cluster.machines if machine is not away]
    away.kill()
    cluster.scheduler.run_until(cluster.scheduler.now + 2.0)
    assert run(move(boss, "t", staying)) == ErrorCode.NONE
    cluster.scheduler.run_until(cluster.scheduler.now + 1.0)
    assert folders(away) == {"t-0", "t-1"}
    away.start()
    cluster.scheduler.run_until(cluster.scheduler.now + 5.0)
    assert folders(away) == {"t-1"}
    assert run(move(boss, "t", [away.broker_id, *staying])) == ErrorCode.NONE
    cluster.scheduler.run_until(cluster.scheduler.now + 5.0)
    assert folders(away) == {"t-0", "t-1"}
    for machine in cluster.machines:
        assert machine.node is not None
        assert {str(held.name): held.log.log_end_offset for held in machine.node.partitions} == {"t-0": 1, "t-1": 0}


def test_what_moved_away_from_a_broker_whose_session_had_ended_is_deleted_when_it_has_another(
    cluster: Cluster,
) -> None:
    """Its process goes on, with the replica open: it is no less a stray than one that is found at a start."""
    run = functools.partial(finished, cluster)

    boss = controller(cluster)
    assert run(create(boss, "t")) == ErrorCode.NONE
    away = next(machine for machine in cluster.machines if machine.broker_id != boss)
    staying = [machine.broker_id for machine in cluster.machines if machine is not away]
    assert run(produce(cluster, "t", 0)) == ErrorCode.NONE
    for source, target in ((away.name, STORE_HOST), (STORE_HOST, away.name)):
        cluster.network.block(source, target)
    cluster.scheduler.run_until(cluster.scheduler.now + 30.0)
    assert run(move(boss, "t", staying)) == ErrorCode.NONE
    cluster.scheduler.run_until(cluster.scheduler.now + 1.0)
    assert folders(away) == {"t-0", "t-1"}
    cluster.network.heal()
    cluster.scheduler.run_until(cluster.scheduler.now + 5.0)
    assert folders(away) == {"t-1"}
    assert away.node is not None
    assert {str(held.name) for held in away.node.partitions} == {"t-1"}


def test_a_replica_that_finds_another_log_dir_is_counted_on_again() -> None:
    """Its first one failed without the broker's knowing, so that it said that it could not follow, and then it could.

    Its leader called it in sync, the controller wrote that it was not, in a new epoch, and so on.
    """
    cluster = Cluster(seed=7, settings={"log.dirs": ",".join(LOG_DIRS)})
    run = functools.partial(finished, cluster)
    with without_collector(cluster.dispose):
        cluster.start()
        cluster.scheduler.run_until(2.0)
        boss = controller(cluster)
        assert run(create(boss, "t")) == ErrorCode.NONE
        back = next(machine for machine in cluster.machines if machine.broker_id != boss)
        staying = [machine.broker_id for machine in cluster.machines if machine is not back]
        [emptied] = [path for path in LOG_DIRS if back.disk.exists(Path(path) / "t-0")]
        assert run(move(boss, "t", staying)) == ErrorCode.NONE
        cluster.scheduler.run_until(cluster.scheduler.now + 2.0)
        back.disk.fails_with, back.disk.fails_in = errno.EIO, emptied.strip("/")
        assert run(move(boss, "t", [*staying, back.broker_id])) == ErrorCode.NONE
        cluster.scheduler.run_until(cluster.scheduler.now + 2.0)
        path = paths.partition_state("t", 0)
        state = PartitionStateRecord.decode(path, cluster.store.read(path).data)
        assert set(state.isr) == {*staying, back.broker_id}
        cluster.scheduler.run_until(cluster.scheduler.now + 2.0)
        assert PartitionStateRecord.decode(path, cluster.store.read(path).data) == state


def folders(machine: Machine) -> set[str]:
    """Return the partitions that a machine's disk holds."""
    entries = machine.disk.list(Path(DATA))
    return {entry.name for entry in entries if entry.is_folder}


async def delete(broker: int, name: str) -> int:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=name)], timeout_ms=9000)
    answer = await ask(broker, request, DeleteTopicsResponse, 6)
    return answer.responses[0].error_code


async def produce(cluster: Cluster, name: str, index: int) -> int:
    """Write a record to a partition, to whoever leads it."""
    path = paths.partition_state(name, index)
    leader = PartitionStateRecord.decode(path, cluster.store.read(path).data).leader
    batch = build_batch(numbered([(None, b"old")], timestamp_ms=cluster.machines[0].now_ms()))
    data = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=index, records=memoryview(batch))])
    request = ProduceRequest(acks=-1, timeout_ms=9000, topic_data=[data])
    answer = await ask(leader, request, ProduceResponse, 9)
    return answer.responses[0].partition_responses[0].error_code


async def commit(broker: int, offset: int) -> int:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
    request = OffsetCommitRequest(group_id="g", topics=topics)
    answer = await ask(broker, request, OffsetCommitResponse, 8)
    return answer.topics[0].partitions[0].error_code


async def committed(broker: int) -> tuple[int, int]:
    """Return the error that a broker tells, and how far the group has got if there is none."""
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=topics)], require_stable=True)
    (told,) = (await ask(broker, request, OffsetFetchResponse, 8)).groups
    return told.error_code, -1 if told.error_code else told.topics[0].partitions[0].committed_offset


async def coordinator(broker: int) -> int:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=["g"])
    (told,) = (await ask(broker, request, FindCoordinatorResponse, 4)).coordinators
    return told.node_id


def test_a_coordinator_that_was_replaced_unawares_does_not_tell_old_offsets(cluster: Cluster) -> None:
    """Who copies in transactions would go on from there, and copy what others have copied since."""

    def run(work: Coroutine[Any, Any, T], within_s: float = 10) -> T:
        result: T = cluster.run_until_done(cluster.spawn(work), within_s=within_s)
        return result

    async def until_committed(broker: int, offset: int) -> None:
        while await commit(broker, offset) != ErrorCode.NONE:  # noqa: ASYNC110 - it is asked, it does not tell
            await asyncio.sleep(0.1)

    async def other_coordinator(broker: int) -> int:
        while (found := await coordinator(broker)) in {-1, old}:  # noqa: ASYNC110 - it is asked, it does not tell
            await asyncio.sleep(0.1)
        return found

    assert run(create(controller(cluster), "t")) == 0
    old = -1
    old = run(other_coordinator(1))
    run(until_committed(old, 5))
    assert run(committed(old)) == (ErrorCode.NONE, 5)
    others = [machine.broker_id for machine in cluster.machines if machine.broker_id != old]
    for name in [STORE_HOST, *(f"broker{number}" for number in others)]:
        cluster.network.block(name, f"broker{old}")
        cluster.network.block(f"broker{old}", name)
    session = cluster.store.owner_of(paths.broker(BrokerId(old)))
    assert session is not None
    cluster.store.end_session(session)
    new = run(other_coordinator(others[0]))
    run(until_committed(new, 9))
    assert run(committed(new)) == (ErrorCode.NONE, 9)
    assert run(coordinator(old)) == old, "it does not know that it was replaced"
    error, told = run(committed(old))
    assert error in {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
    assert told == -1


def test_what_was_written_is_still_there_after_all_have_lost_their_power(cluster: Cluster) -> None:
    cluster.run_until_done(cluster.spawn(create(controller(cluster), "t")), within_s=10)
    for machine in cluster.machines:
        machine.lose_power()
    cluster.scheduler.run_until(cluster.scheduler.now + 10.0)
    for machine in cluster.machines:
        machine.start()
    cluster.scheduler.run_until(cluster.scheduler.now + 10.0)
    assert all(machine.is_serving for machine in cluster.machines)
    for machine in cluster.machines:
        assert machine.node is not None
        assert {str(partition.name) for partition in machine.node.partitions} == {"t-0", "t-1"}


def test_a_consumer_is_sent_to_the_replica_in_its_rack_and_reads_there() -> None:
    """Otherwise seeds in which consumers read nearby would show nothing of it."""
    cluster = Cluster(seed=7, settings=nearby_consumer.SETTINGS)
    with without_collector(cluster.dispose):
        cluster.start()
        cluster.scheduler.run_until(2.0)
        assert finished(cluster, create(controller(cluster), "t")) == ErrorCode.NONE
        readers = [NearbyConsumer(cluster, f"at-{one.name}", History(), rack=one.name) for one in cluster.machines]
        for reader in readers:
            cluster.spawn(reader.run([Place("t", 0)]))
        cluster.scheduler.run_until(cluster.scheduler.now + 1.0)
        assert finished(cluster, produce(cluster, "t", 0)) == ErrorCode.NONE
        cluster.scheduler.run_until(cluster.scheduler.now + 2.0)
        seen = [[poll.records for poll in reader.history.steps if isinstance(poll, Poll)] for reader in readers]
        assert seen == [[[(0, "old")]]] * 3
        assert sorted(reader.read_nearby for reader in readers) == [0, 1, 1], "one is in the leader's rack"


def test_who_leads_before_its_last_records_were_on_the_disk_comes_to_rest(scene: Callable[..., Any]) -> None:
    """It followed, and was told to lead while it synced what it had fetched last; nobody writes after that."""
    stage = scene(flush_messages="1")
    kept = stage.write_for_sure()
    for follower in stage.followers:
        follower.loop.thread_seconds = (30.0, 30.0)
    late = stage.write(acks=1)
    stage.pass_time(0.1)
    old = stage.leader
    old.kill()
    stage.wait_for(lambda: stage.state.leader > 0 and stage.leader is not old)
    new = stage.leader.node.partitions.get("t", 0)
    stage.wait_for(lambda: new.leads)
    assert new.wants_sync
    old.start()
    stage.pass_time(40.0)
    assert stage.all_in_sync()
    assert unrest(stage.cluster) == frozenset()
    assert {kept.value, late.value} <= stage.contents()


def test_a_follower_that_deletes_records_while_it_asks_for_more_learns_what_is_committed(
    scene: Callable[..., Any],
) -> None:
    """Retention made it drop the answer, and the leader took it for told: who read there waited for the next write."""
    stage = scene()
    stage.write_for_sure()
    sent = stage.write_for_sure()
    for follower in stage.followers:
        partition = follower.node.partitions.get("t", 0)
        assert partition.high_watermark <= sent.offset, "it is told with the next answer, half a second later"
        partition.log.delete_records_before(sent.offset)
    stage.pass_time(3.0)
    assert unrest(stage.cluster) == frozenset()
