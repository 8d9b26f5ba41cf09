"""When a follower begins to fetch."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from highwater.broker.appends import Appends
from highwater.broker.cluster import Cluster
from highwater.broker.log_syncer import LogSyncer
from highwater.broker.partition import Partition
from highwater.broker.replica_fetchers import ReplicaFetchers
from highwater.broker.replication_throttles import ReplicationThrottles
from highwater.config.broker_config import BrokerConfig
from highwater.coordination.records import ListenerAddress
from highwater.model.ids import BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from highwater.storage.log_config import LogConfig
from highwater.testing.log_bench import NOW_MS, LogBench, a_batch
from highwater.testing.replica_parts import RememberedProposals

ME, OTHER = BrokerId(1), BrokerId(2)


class Observed(ReplicaFetchers):
    """Remembers how much of a log was on the disk when its leader was first looked for."""

    partition: Partition

    def begin(self, partition: Partition) -> None:
        self.partition = partition
        self.synced_to: list[int] = []
        self.is_looking = asyncio.Event()
        self.follow(partition)

    def address_of(self, broker: BrokerId) -> ListenerAddress | None:
        del broker
        self.synced_to.append(self.partition.log.recovery_point)
        self.is_looking.set()
        return None


async def test_who_has_led_syncs_what_it_wrote_before_it_says_that_it_has_it(tmp_path: Path) -> None:
    """Found by the simulator: a leader with a slow disk was replaced, and counted as a follower for what it lost."""
    loop, config = asyncio.get_running_loop(), BrokerConfig()
    bench = LogBench(tmp_path / "orders-0", LogConfig(flush_messages=1))
    bench.append(a_batch(b"a", b"b"))
    assert bench.log.recovery_point == 0
    with ThreadPoolExecutor(1) as executor:
        partition = Partition(
            TopicPartition("orders", 0),
            topic_id=TopicId(b"t" * 16),
            log=bench.log,
            high_watermark=Offset(0),
            min_insync_replicas=1,
            appends=Appends(loop),
            syncer=LogSyncer(loop, executor),
            keeper=RememberedProposals(ME),
        )
        partition.follow(OTHER, LeaderEpoch(2), replicas=(ME, OTHER))
        fetchers = Observed(
            loop,
            executor,
            ME,
            config,
            cluster=Cluster("c", me=ME, controller_id=OTHER, controller_epoch=1, brokers=[]),
            throttles=ReplicationThrottles(ME, config, now_ms=lambda: 0),
            now_ms=lambda: NOW_MS,
        )
        fetchers.begin(partition)
        await asyncio.wait_for(fetchers.is_looking.wait(), 10)
        fetchers.close()
    assert fetchers.synced_to[0] == bench.log.log_end_offset
