"""A group coordinator on a real log, with time that passes only when there is nothing else to do."""

from __future__ import annotations

import asyncio
import itertools
import selectors
from typing import TYPE_CHECKING, Any

import pytest

from highwater.broker.appends import Appends
from highwater.broker.cluster import Cluster
from highwater.broker.group_coordinator import GroupCoordinator
from highwater.broker.group_metrics import GroupMetrics
from highwater.broker.partition import Partition
from highwater.broker.topics import OFFSETS_TOPIC, Topic, Topics
from highwater.config.broker_config import BrokerConfig
from highwater.config.topic_settings import TopicSettings
from highwater.metrics.registry import Registry
from highwater.model.ids import NO_TOPIC_ID, BrokerId, LeaderEpoch, Offset, TopicId, TopicPartition
from highwater.storage.files import OsFiles
from highwater.storage.log import Log
from highwater.storage.log_config import LogConfig
from highwater.testing.replica_parts import RememberedProposals

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class _VirtualSelector(selectors.DefaultSelector):
    """Instead of waiting for a timer, lets the loop's clock jump to it; but threads are waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0
        self.threads_at_work = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or (timeout > 0 and self.threads_at_work):
            return super().select(None)
        ready = super().select(0)
        if not ready:
            self.now += max(timeout, 0)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop on which an hour takes no time."""

    def __init__(self) -> None:
        self._virtual = _VirtualSelector()
        super().__init__(self._virtual)

    def time(self) -> float:
        return self._virtual.now

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]  # of any
        future = super().run_in_executor(executor, func, *args)
        self._virtual.threads_at_work += 1
        future.add_done_callback(self._thread_is_done)
        return future

    def _thread_is_done(self, _: asyncio.Future[Any]) -> None:
        self._virtual.threads_at_work -= 1


class Fixture:
    """One partition of the offsets topic and the coordinator that leads it; `restart` is a kill -9 and a start."""

    def __init__(self, loop: asyncio.AbstractEventLoop, directory: Path, settings: dict[str, str]) -> None:
        self.loop = loop
        self.directory = directory / f"{OFFSETS_TOPIC}-0"
        self.config = BrokerConfig({"offsets.topic.num.partitions": "1", **settings})
        self.registry = Registry()
        self.topics = Topics()
        self._ids = itertools.count(1)
        self.start()

    def start(self) -> None:
        appends = Appends(self.loop)
        self.log = Log.open(OsFiles(), self.directory, LogConfig(), now_ms=self.wall_ms(), clean=False)
        self.partition = Partition(
            TopicPartition(OFFSETS_TOPIC, 0),
            topic_id=NO_TOPIC_ID,
            log=self.log,
            high_watermark=Offset(0),
            min_insync_replicas=1,
            appends=appends,
            syncer=None,  # type: ignore[arg-type]  # the log never asks for an fsync
            keeper=RememberedProposals(BrokerId(0)),
        )
        self.partition.lead(LeaderEpoch(0), replicas=(BrokerId(0),), isr=(BrokerId(0),), isr_version=0)
        self.coordinator = GroupCoordinator(
            self.loop,
            self.config,
            appends=appends,
            wall_ms=self.wall_ms,
            new_id=lambda: str(next(self._ids)),
            metrics=GroupMetrics(self.registry),
            topics=self.topics,
            cluster=Cluster("test", me=BrokerId(0), controller_id=BrokerId(0), controller_epoch=0, brokers=()),
        )
        self.coordinator.lead(self.partition)

    def add_topic(self, name: str) -> Topic:
        topic = Topic(name, TopicId(name.encode().ljust(16)), [], {}, TopicSettings.resolve(self.config, {}))
        self.topics.put(topic)
        return topic

    async def ready(self) -> None:
        await self.coordinator.until_loaded()

    async def restart(self) -> None:
        self.coordinator.close()
        self.start()
        await self.ready()

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + int(self.loop.time() * 1000)

    async def answer(self, waited: Any) -> Any:
        """Return the response, whether it is there already or must be waited for."""
        if not hasattr(waited, "start"):
            return waited
        future: asyncio.Future[Any] = self.loop.create_future()
        waited.start(future.set_result)
        return await asyncio.wait_for(future, 3_600)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., None]]:
    """Run a scenario: `run(scenario)` calls `scenario(fixture)` on a loop with virtual time."""
    loop = VirtualTimeLoop()

    def on_loop(scenario: Callable[[Fixture], Any], **settings: object) -> None:
        given = {name.replace("_", "."): str(value) for name, value in settings.items()}

        async def whole() -> None:
            fixture = Fixture(loop, tmp_path, given)
            await fixture.ready()
            try:
                await scenario(fixture)
            finally:
                fixture.coordinator.close()

        loop.run_until_complete(whole())

    yield on_loop
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
