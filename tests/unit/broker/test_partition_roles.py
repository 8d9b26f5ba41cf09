"""Partitions as leaders and followers, on real logs, fetching from each other without a network."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, Future
from pathlib import Path
from typing import Any

import pytest

from highwater.broker.appends import Appends
from highwater.broker.log_syncer import LogSyncer
from highwater.broker.low_watermark import all_start_at, delete_records_before
from highwater.broker.partition import Partition
from highwater.broker.partitions import Partitions
from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from highwater.protocol.messages.produce import PartitionProduceResponse
from highwater.storage.files import OsFiles
from highwater.storage.log import Log
from highwater.storage.log_config import LogConfig
from highwater.testing.log_bench import NOW_MS, a_batch
from highwater.testing.replica_parts import RememberedProposals

ONE, TWO, THREE = BrokerId(1), BrokerId(2), BrokerId(3)
ALL = (ONE, TWO, THREE)
NAME = TopicPartition("orders", 0)


class Waiter:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.outcome: ErrorCode | None = None

    def committed(self) -> None:
        self.outcome = ErrorCode.NONE

    def refused(self, code: ErrorCode) -> None:
        self.outcome = code


class Reader:
    """A reader that counts what it is told of."""

    def __init__(self) -> None:
        self.told_bytes: list[int] = []

    def data_arrived(self, size_bytes: int) -> None:
        self.told_bytes.append(size_bytes)


class InThisTurn(Executor):
    """Runs what it is given at once; what becomes of it is told when the loop turns."""

    def submit(self, call: Any, /, *args: Any, **kwargs: Any) -> Any:
        done: Future[Any] = Future()
        done.set_result(call(*args, **kwargs))
        return done


class Replica:
    """One broker's replica and the parts around it."""

    def __init__(self, broker: BrokerId, folder: Path, config: LogConfig) -> None:
        self.broker = broker
        self.appends = Appends(asyncio.get_running_loop())
        self.keeper = RememberedProposals(broker)
        self.partition = Partition(
            NAME,
            topic_id=TopicId(b"t" * 16),
            log=Log.open(OsFiles(), folder / f"{broker}-orders-0", config, now_ms=NOW_MS, clean=True),
            high_watermark=Offset(0),
            min_insync_replicas=2,
            appends=self.appends,
            syncer=LogSyncer(asyncio.get_running_loop(), InThisTurn()),
            keeper=self.keeper,
        )

    def lead(self, epoch: int = 0, *, isr: tuple[BrokerId, ...] = ALL, version: int = 0) -> None:
        self.partition.lead(LeaderEpoch(epoch), replicas=ALL, isr=isr, isr_version=version)

    def follow(self, leader: BrokerId, epoch: int = 0) -> None:
        self.partition.follow(leader, LeaderEpoch(epoch), replicas=ALL)

    def write(self, *values: bytes) -> Waiter:
        """Append with acks=all; return who waits for it."""
        receipt, waiter = PartitionProduceResponse(), Waiter()
        staged = self.partition.stage(memoryview(a_batch(*values)), now_ms=NOW_MS, receipt=receipt)
        self.appends.write()
        assert receipt.error_code == ErrorCode.NONE
        if self.partition.when_committed(Offset(staged.last_offset + 1), waiter):
            waiter.committed()
        return waiter

    def fetch(self, leader: "Replica") -> bool:
        """Fetch once; return whether there was anything, records or a divergence."""
        log, mine, theirs = self.partition.log, self.partition, leader.partition
        end = Offset(log.log_end_offset)
        diverging = theirs.replica_fetched(
            self.broker,
            end,
            epoch=mine.leader_epoch,
            last_epoch=log.leader_epochs.latest,
            log_start=log.log_start_offset,
        )
        if diverging is not None:
            mine.truncate_to_leader(diverging, now_ms=NOW_MS)
            return True
        region = theirs.read_for_replica(end, max_bytes=1_000_000, at_least_one_batch=True)
        records = memoryview(b"" if region is None else region.read())
        mine.append_from_leader(
            records,
            high_watermark=theirs.high_watermark,
            log_start_offset=Offset(theirs.log.log_start_offset),
            now_ms=NOW_MS,
        )
        return len(records) > 0

    def catch_up(self, leader: "Replica") -> None:
        for _ in range(10):
            if not self.fetch(leader):
                return
        raise AssertionError("the logs never agree")

    def agree(self, version: int) -> None:
        """Agree to what was proposed last."""
        partition, proposal = self.keeper.proposed[-1]
        partition.isr_committed(proposal, proposal.isr, version)

    @property
    def bytes(self) -> bytes:
        return next(self.partition.log.directory.glob("*.log")).read_bytes()


MakeReplica = Callable[..., Replica]


@pytest.fixture
def replica(tmp_path: Path) -> MakeReplica:
    return lambda broker, **config: Replica(broker, tmp_path, LogConfig(**config))


async def test_a_write_is_committed_when_everybody_in_sync_has_asked_for_what_comes_next(replica: MakeReplica) -> None:
    one, two, three = replica(ONE), replica(TWO), replica(THREE)
    one.lead()
    for follower in (two, three):
        follower.follow(ONE)
    write = one.write(b"a")
    for follower in (two, three):
        follower.fetch(one)
    assert write.outcome is None, "they have it, and the leader does not know"
    two.fetch(one)
    assert write.outcome is None
    three.fetch(one)
    assert write.outcome is ErrorCode.NONE
    assert one.bytes == two.bytes == three.bytes


async def test_consumers_see_what_is_committed_and_followers_what_is_written(replica: MakeReplica) -> None:
    one = replica(ONE)
    one.lead()
    consumer, follower = Reader(), Reader()
    one.partition.followers_of_data[consumer] = None
    one.partition.replica_readers[follower] = None
    one.write(b"a")
    assert one.partition.read(Offset(0), max_bytes=1000, committed_only=False, at_least_one_batch=True) is None
    assert one.partition.read_for_replica(Offset(0), max_bytes=1000, at_least_one_batch=True) is not None
    assert not consumer.told_bytes
    assert len(follower.told_bytes) == 1


async def test_who_leads_before_its_last_records_were_on_the_disk_syncs_them_and_commits_them(
    replica: MakeReplica,
) -> None:
    """A follower was told to lead while it synced; no write came after that, and nothing was ever committed."""
    one, two = replica(ONE, flush_messages=1), replica(TWO, flush_messages=1)
    one.lead()
    two.follow(ONE)
    one.write(b"a")
    two.fetch(one)
    two.lead(1, isr=(ONE, TWO))
    one.follow(TWO, 1)
    one.fetch(two)
    assert two.partition.high_watermark == 0, "it is not on the disk yet"
    for _ in range(5):
        await asyncio.sleep(0)
    assert two.partition.high_watermark == 1


async def test_what_a_follower_has_deleted_was_committed_whatever_its_leader_knows(replica: MakeReplica) -> None:
    """All lost their power, and the leader what it knew of deletions and of its watermark; the follower did not."""
    one, two = replica(ONE), replica(TWO)
    one.lead()
    two.follow(ONE)
    for value in (b"a", b"b", b"c"):
        one.write(value)
    two.catch_up(one)
    two.partition.log.delete_records_before(2)
    two.fetch(one)
    assert one.partition.high_watermark == 0
    assert two.partition.high_watermark == 2
    two.lead(1, isr=(TWO,))
    assert two.partition.high_watermark >= two.partition.log.log_start_offset


async def test_too_few_in_sync_are_told_before_the_append_and_after_it(replica: MakeReplica) -> None:
    """C11: with ISR smaller than min.insync.replicas, NOT_ENOUGH_REPLICAS before, ..._AFTER_APPEND after."""
    one, two = replica(ONE), replica(TWO)
    one.lead(isr=(ONE, TWO))
    two.follow(ONE)
    one.partition.check_enough_replicas()
    write = one.write(b"a")
    one.keeper.time_ms = one.keeper.max_lag_ms + 1
    one.partition.shrink_isr()
    assert one.keeper.proposed[-1][1].isr == (ONE,)
    one.agree(version=1)
    assert write.outcome is ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    with pytest.raises(KafkaError) as refused:
        one.partition.check_enough_replicas()
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS


async def test_a_follower_that_catches_up_is_proposed_and_counts_once_agreed_upon(replica: MakeReplica) -> None:
    one, two = replica(ONE), replica(TWO)
    one.lead(isr=(ONE,), version=4)
    one.write(b"a")
    two.follow(ONE)
    two.catch_up(one)
    assert one.keeper.proposed[-1][1].isr == (ONE, TWO)
    assert one.keeper.proposed[-1][1].expected_version == 4
    assert TWO not in one.partition.in_sync_replicas
    one.agree(version=5)
    assert one.partition.in_sync_replicas == (ONE, TWO)
    one.partition.check_enough_replicas()


async def test_a_member_that_was_moved_away_does_not_make_enough_in_sync(replica: MakeReplica) -> None:
    """Found by the simulator: it was agreed upon just after its replica was taken away, and nobody waits for it."""
    one, two = replica(ONE), replica(TWO)
    one.lead(isr=(ONE,))
    two.follow(ONE)
    two.catch_up(one)
    one.partition.lead(LeaderEpoch(0), replicas=(ONE, THREE), isr=(ONE,), isr_version=0)
    one.agree(1)
    assert one.partition.in_sync_replicas == (ONE,)
    with pytest.raises(KafkaError) as refused:
        one.partition.check_enough_replicas()
    assert refused.value.code is ErrorCode.NOT_ENOUGH_REPLICAS


async def test_older_news_of_who_is_in_sync_does_not_count(replica: MakeReplica) -> None:
    one = replica(ONE)
    one.lead(isr=(ONE,), version=3)
    one.lead(isr=(ONE, TWO), version=2)
    assert one.partition.in_sync_replicas == (ONE,)


async def test_what_waits_in_a_leader_that_is_replaced_is_refused(replica: MakeReplica) -> None:
    one = replica(ONE)
    one.lead()
    write = one.write(b"a")
    one.follow(TWO, epoch=1)
    assert write.outcome is ErrorCode.NOT_LEADER_OR_FOLLOWER


async def test_what_waits_in_a_leader_that_is_elected_again_goes_on_waiting(replica: MakeReplica) -> None:
    """The controller gives a new epoch to the same leader when another replica dies."""
    one, two = replica(ONE), replica(TWO)
    one.lead()
    write = one.write(b"a")
    one.lead(epoch=1, isr=(ONE, TWO), version=1)
    two.follow(ONE, epoch=1)
    two.fetch(one)
    two.fetch(one)
    assert write.outcome is ErrorCode.NONE


async def test_only_the_leader_is_found_by_clients(replica: MakeReplica) -> None:
    one, partitions = replica(ONE), Partitions()
    partitions.add(one.partition)
    with pytest.raises(KafkaError) as refused:
        partitions.leader_of(*NAME)
    assert refused.value.code is ErrorCode.NOT_LEADER_OR_FOLLOWER
    one.lead()
    assert partitions.leader_of(*NAME) is one.partition
    one.follow(TWO, epoch=1)
    with pytest.raises(KafkaError):
        partitions.leader_of(*NAME)


async def test_a_replica_of_another_epoch_is_fenced_and_commits_nothing(replica: MakeReplica) -> None:
    one, two = replica(ONE), replica(TWO)
    one.lead(epoch=3, isr=(ONE, TWO))
    one.write(b"a")
    two.follow(ONE, epoch=2)
    with pytest.raises(KafkaError) as refused:
        two.fetch(one)
    assert refused.value.code is ErrorCode.FENCED_LEADER_EPOCH
    two.follow(ONE, epoch=4)
    with pytest.raises(KafkaError) as unknown:
        two.fetch(one)
    assert unknown.value.code is ErrorCode.UNKNOWN_LEADER_EPOCH
    assert one.partition.high_watermark == 0


async def test_a_divergent_tail_is_cut_on_real_logs(replica: MakeReplica) -> None:
    """KIP-279 on disk: ONE wrote in epoch 0 what nobody has, TWO wrote in epoch 1, ONE comes back to lead epoch 2."""
    one, two = replica(ONE), replica(TWO)
    one.lead(isr=(ONE, TWO))
    two.follow(ONE)
    one.write(b"a")
    two.catch_up(one)
    one.write(b"lost-1")
    one.write(b"lost-2")
    two.lead(epoch=1, isr=(TWO,))
    two.write(b"b")
    two.write(b"c")
    one.follow(TWO, epoch=1)
    one.catch_up(two)
    assert one.bytes == two.bytes
    assert one.partition.log.leader_epochs.entries == two.partition.log.leader_epochs.entries
    assert one.partition.log.log_end_offset == 3


async def test_a_leader_that_wrote_nothing_follows_without_end(replica: MakeReplica) -> None:
    """Its epoch is in its history without a record; before truncation forgot such an epoch, it asked for ever."""
    one, two = replica(ONE), replica(TWO)
    one.lead(isr=(ONE, TWO))
    two.follow(ONE)
    one.write(b"a")
    two.catch_up(one)
    two.lead(epoch=1, isr=(ONE, TWO), version=1)
    one.lead(epoch=2, isr=(ONE, TWO), version=2)
    two.follow(ONE, epoch=2)
    two.catch_up(one)
    assert one.bytes == two.bytes


async def test_a_new_leader_says_when_it_knows_what_is_committed(replica: MakeReplica) -> None:
    """KIP-207: a consumer must not be told an end that lies before what it has read."""
    one, two = replica(ONE), replica(TWO)
    one.lead(isr=(ONE, TWO))
    two.follow(ONE)
    one.write(b"a")
    two.fetch(one)
    two.lead(epoch=1, isr=(ONE, TWO), version=1)
    assert not two.partition.knows_what_is_committed
    one.follow(TWO, epoch=1)
    one.fetch(two)
    assert two.partition.knows_what_is_committed


async def test_a_follower_follows_the_start_of_its_leaders_log(replica: MakeReplica) -> None:
    one, two = replica(ONE), replica(TWO)
    one.lead(isr=(ONE, TWO))
    two.follow(ONE)
    one.write(b"a", b"b")
    one.write(b"c")
    two.catch_up(one)
    one.partition.log.delete_records_before(2)
    two.fetch(one)
    assert two.partition.log.log_start_offset == 2


async def test_an_overtaken_proposal_is_not_made_again(replica: MakeReplica) -> None:
    one = replica(ONE)
    one.lead()
    one.write(b"a")
    one.keeper.time_ms = one.keeper.max_lag_ms + 1
    one.partition.shrink_isr()
    partition, proposal = one.keeper.proposed[-1]
    partition.isr_overtaken(proposal)
    one.partition.shrink_isr()
    assert len(one.keeper.proposed) == 1
    assert one.partition.high_watermark == 0


async def test_records_are_deleted_when_the_logs_of_all_that_live_start_there(replica: MakeReplica) -> None:
    one, two = replica(ONE), replica(TWO)
    one.lead(isr=(ONE, TWO))
    two.follow(ONE)
    one.write(b"a")
    one.write(b"b")
    two.catch_up(one)
    delete_records_before(one.partition, 1)
    over = asyncio.get_running_loop().time()
    assert await all_start_at(one.partition, 1, {ONE, TWO}, deadline=over) is ErrorCode.REQUEST_TIMED_OUT
    assert await all_start_at(one.partition, 1, {ONE}, deadline=over) is ErrorCode.NONE
    two.fetch(one)  # it hears where the log starts
    two.fetch(one)  # and tells that its own does
    assert await all_start_at(one.partition, 1, {ONE, TWO}, deadline=over) is ErrorCode.NONE


async def test_who_leads_no_more_does_not_say_that_records_are_deleted(replica: MakeReplica) -> None:
    """Its own log starts there; where those of the others do it does not hear any more."""
    one = replica(ONE)
    one.lead()
    one.write(b"a")
    delete_records_before(one.partition, 1)
    one.follow(TWO, epoch=1)
    over = asyncio.get_running_loop().time()
    assert await all_start_at(one.partition, 1, ALL, deadline=over) is ErrorCode.NOT_LEADER_OR_FOLLOWER
