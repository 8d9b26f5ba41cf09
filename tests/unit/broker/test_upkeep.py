"""What time does to logs, on real files with a clock of our own."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from highwater.broker.appends import Appends
from highwater.broker.log_syncer import LogSyncer
from highwater.broker.partition import Partition
from highwater.broker.partitions import Partitions
from highwater.broker.recompression import Recompression
from highwater.broker.replicas import Replicas
from highwater.broker.replication_throttles import ReplicationThrottles
from highwater.broker.upkeep import Upkeep
from highwater.config.broker_config import BrokerConfig
from highwater.config.topic_settings import TopicSettings
from highwater.model.ids import BrokerId, LeaderEpoch, TopicId, TopicPartition
from highwater.protocol.messages.produce import PartitionProduceResponse
from highwater.protocol.records.record import Record, build_batch
from highwater.storage import checkpoints
from highwater.storage.files import OsFiles
from highwater.storage.log_dir import LogDir
from highwater.testing.replica_parts import RememberedFollowing, RememberedProposals

START_MS = 1_700_000_000_000


class House:
    """A broker's logs without its sockets."""

    def __init__(self, path: Path, loop: asyncio.AbstractEventLoop) -> None:
        self.now_ms = START_MS
        self.loop = loop
        self.executor = ThreadPoolExecutor(1)
        self.config = BrokerConfig({})
        self.partitions = Partitions()
        self.appends = Appends(loop)
        self.log_dir = LogDir.open(OsFiles(), path)
        self.replicas = Replicas(
            loop,
            self.executor,
            self.config,
            log_dirs=[self.log_dir],
            partitions=self.partitions,
            appends=self.appends,
            syncer=LogSyncer(loop, self.executor),
            keeper=RememberedProposals(BrokerId(0)),
            fetchers=RememberedFollowing(),
            recompression=Recompression(loop, self.executor, self.appends),
            throttles=ReplicationThrottles(BrokerId(0), self.config, now_ms=lambda: 0),
            now_ms=lambda: self.now_ms,
        )
        self.upkeep = Upkeep(
            loop,
            self.executor,
            self.config,
            partitions=self.partitions,
            replicas=self.replicas,
            appends=self.appends,
            now_ms=lambda: self.now_ms,
        )

    def partition(self, **settings: str) -> Partition:
        name = TopicPartition("events", len(self.partitions))
        overrides = {key.replace("_", "."): value for key, value in settings.items()}
        made = self.replicas.make(
            name,
            topic_id=TopicId(bytes(range(16))),
            leader_epoch=LeaderEpoch(0),
            replicas=(BrokerId(0),),
            settings=TopicSettings.resolve(self.config, overrides),
            is_new=True,
        )
        assert made is not None
        return made

    def append(self, partition: Partition, value: bytes = b"x") -> PartitionProduceResponse:
        record = Record(offset=0, timestamp=self.now_ms, key=None, value=value, headers=[])
        receipt = PartitionProduceResponse(index=0)
        partition.stage(memoryview(build_batch([record])), now_ms=self.now_ms, receipt=receipt)
        self.appends.write()
        return receipt


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    loop = asyncio.new_event_loop()
    house = House(tmp_path, loop)
    yield house
    house.executor.shutdown()
    loop.close()


def test_a_log_is_flushed_once_flush_ms_has_passed(house: House) -> None:
    partition = house.partition(flush_ms="5000")
    house.append(partition)
    house.loop.run_until_complete(house.upkeep.flush_due())
    assert partition.log.recovery_point == 0
    house.now_ms += 5000
    house.loop.run_until_complete(house.upkeep.flush_due())
    assert partition.log.recovery_point == 1


def test_a_log_without_flush_ms_is_left_to_the_system(house: House) -> None:
    partition = house.partition()
    house.append(partition)
    house.loop.run_until_complete(house.upkeep.flush_due())
    house.now_ms += 10**9
    house.loop.run_until_complete(house.upkeep.flush_due())
    assert partition.log.recovery_point == 0


def test_with_flush_messages_nothing_is_committed_before_it_is_synced(house: House) -> None:
    partition = house.partition(flush_messages="1")
    house.append(partition)
    assert partition.high_watermark == 0
    house.loop.run_until_complete(asyncio.wait_for(_committed(partition, 1), 10))
    assert partition.log.recovery_point == 1


async def _committed(partition: Partition, offset: int) -> None:
    while partition.high_watermark < offset:  # noqa: ASYNC110 - the partition has no event for tests
        await asyncio.sleep(0.001)


def test_segments_older_than_retention_ms_go_and_the_log_starts_later(house: House) -> None:
    partition = house.partition(retention_ms="60000", segment_bytes="200")
    for _ in range(5):
        house.append(partition, b"x" * 100)
    assert len(partition.log.segments) == 5
    house.now_ms += 30_000
    house.append(partition, b"x" * 100)
    house.now_ms += 45_000
    house.loop.run_until_complete(house.upkeep.retain())
    assert partition.log.log_start_offset == 5


def test_checkpoints_say_what_a_restart_needs_and_an_idle_broker_writes_none(house: House) -> None:
    partition = house.partition()
    house.append(partition)
    house.loop.run_until_complete(house.upkeep.checkpoint_high_watermarks())
    path = house.log_dir.path / checkpoints.HIGH_WATERMARKS
    assert checkpoints.read_offsets(OsFiles(), path) == {partition.name: 1}
    path.unlink()
    house.loop.run_until_complete(house.upkeep.checkpoint_high_watermarks())
    assert not path.exists(), "nothing has changed, so nothing is written"
    house.append(partition)
    house.loop.run_until_complete(house.upkeep.checkpoint_high_watermarks())
    assert checkpoints.read_offsets(OsFiles(), path) == {partition.name: 2}
