"""A broker's replicas from its log dirs: what they take for committed when they begin."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from highwater.broker.appends import Appends
from highwater.broker.log_syncer import LogSyncer
from highwater.broker.partition_role import PartitionRole
from highwater.broker.partitions import Partitions
from highwater.broker.recompression import Recompression
from highwater.broker.replicas import Replicas
from highwater.broker.replication_throttles import ReplicationThrottles
from highwater.config.broker_config import BrokerConfig
from highwater.config.topic_settings import TopicSettings
from highwater.model.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from highwater.storage import checkpoints
from highwater.storage.files import OsFiles
from highwater.storage.log_dir import LogDir
from highwater.testing.log_bench import NOW_MS, LogBench, a_batch
from highwater.testing.replica_parts import RememberedFollowing, RememberedProposals

ME, OTHER = BrokerId(1), BrokerId(2)
NAME = TopicPartition("orders", 0)
COMMITTED = 2


def role(leader: BrokerId) -> PartitionRole:
    return PartitionRole(
        topic_id=TopicId(b"t" * 16),
        leader=leader,
        leader_epoch=LeaderEpoch(1),
        isr=(ME, OTHER),
        replicas=(ME, OTHER),
        state_version=1,
        controller_epoch=1,
        is_new=False,
    )


class Broker:
    """The replicas of one broker that finds a log dir."""

    def __init__(self, folder: Path, executor: ThreadPoolExecutor, *, clean: bool) -> None:
        loop = asyncio.get_running_loop()
        self.config = BrokerConfig()
        self.partitions = Partitions()
        appends = Appends(loop)
        self.log_dir = LogDir.open(OsFiles(), folder)
        self.log_dir.was_stopped_cleanly = clean
        self.replicas = Replicas(
            loop,
            executor,
            self.config,
            log_dirs=[self.log_dir],
            partitions=self.partitions,
            appends=appends,
            syncer=LogSyncer(loop, executor),
            keeper=RememberedProposals(ME),
            fetchers=RememberedFollowing(),
            throttles=ReplicationThrottles(ME, self.config, now_ms=lambda: 0),
            recompression=Recompression(loop, executor, appends),
            now_ms=lambda: NOW_MS,
        )

    def watermark_as(self, leader: BrokerId) -> int:
        """Return what is taken for committed by who begins to follow, or to lead."""
        become = self.replicas.become_leader if leader == ME else self.replicas.become_follower
        become(NAME, role(leader), TopicSettings.resolve(self.config, {}))
        partition = self.partitions.get(*NAME)
        assert partition is not None
        return partition.high_watermark


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as threads:
        yield threads


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a log dir with a log of four records, two of which were known to be committed when it was left."""
    folder = tmp_path / "data"
    bench = LogBench(folder / str(NAME))
    bench.append(a_batch(b"a", b"b", b"c", b"d"))
    bench.log.close().run()
    checkpoints.write_offsets(OsFiles(), folder / checkpoints.HIGH_WATERMARKS, {NAME: COMMITTED})
    return folder


async def test_a_follower_that_was_stopped_cleanly_knows_what_is_committed(
    folder: Path, executor: ThreadPoolExecutor
) -> None:
    assert Broker(folder, executor, clean=True).watermark_as(OTHER) == COMMITTED


async def test_a_follower_that_was_not_takes_nothing_for_committed_until_its_leader_says_so(
    folder: Path, executor: ThreadPoolExecutor
) -> None:
    """Found by the simulator: a power cut brought back what had been cut off, and others were committed there."""
    assert Broker(folder, executor, clean=False).watermark_as(OTHER) == 0


async def test_a_leader_that_was_not_goes_on_from_what_it_knew(folder: Path, executor: ThreadPoolExecutor) -> None:
    assert Broker(folder, executor, clean=False).watermark_as(ME) == COMMITTED
