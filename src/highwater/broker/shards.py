"""A coordinator's share of the work: a shard for each partition of its internal topic that this broker leads."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.log_events import EventLog

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Task
    from collections.abc import Awaitable, Callable, Iterator

    from highwater.broker.partition import Partition

events = EventLog("coordinator")

RELOAD_DELAY_S: Final = 1.0
"""After a write or a load failed: a full or failing disk must not have us read the same log over and over."""


class Shard(Protocol):
    """What was rebuilt from one partition's log."""

    def start(self) -> None:
        """Go on where the log ends."""

    def stop(self, error: KafkaError) -> None:
        """Let go; whoever waits gets `error`."""


ShardT = TypeVar("ShardT", bound=Shard)


class Shards(Generic[ShardT]):
    """The shards of one topic, each loading or loaded."""

    def __init__(self, loop: AbstractEventLoop, load: Callable[[Partition], Awaitable[tuple[ShardT, int]]]) -> None:
        """`load` returns a shard, and how many records it was made of."""
        self._loop = loop
        self._load = load
        self._loaded: dict[int, ShardT] = {}
        self._loading: dict[int, Task[None]] = {}
        self._closed = False

    def __iter__(self) -> Iterator[ShardT]:
        return iter(tuple(self._loaded.values()))

    def at(self, index: int) -> ShardT:
        """Return the shard of a partition, or raise what a client should do instead of asking us."""
        shard = self._loaded.get(index)
        if shard is None:
            if index in self._loading:
                raise KafkaError(f"partition {index} loads", code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
            raise KafkaError(f"partition {index} is not coordinated here", code=ErrorCode.NOT_COORDINATOR)
        return shard

    @property
    def is_loading(self) -> bool:
        """Whether some of it is not there yet."""
        return bool(self._loading)

    async def until_loaded(self) -> None:
        """Wait for the partitions that load now."""
        if self._loading:
            await asyncio.wait(self._loading.values())

    def lead(self, partition: Partition) -> None:
        """Load a partition that this broker leads now."""
        index = partition.name.partition
        if index in self._loaded or index in self._loading or self._closed:
            return
        task = self._loop.create_task(self._load_and_start(partition))
        self._loading[index] = task
        task.add_done_callback(partial(self._ended_loading, partition))

    def resign(self, index: int) -> None:
        """Let go of a partition that this broker no longer leads."""
        task = self._loading.pop(index, None)
        if task is not None:
            task.cancel()
        self._stop(index, KafkaError("another broker is the coordinator", code=ErrorCode.NOT_COORDINATOR))

    def close(self) -> None:
        """Let go of everything: this broker stops."""
        self._closed = True
        for index in [*self._loading, *self._loaded]:
            self.resign(index)

    def write_failed(self, partition: Partition, error: KafkaError) -> None:
        """Rebuild a shard whose memory is ahead of its log, because a write failed."""
        events.error("decision_not_written", partition=partition.name, reason=error)
        refusal = KafkaError("the decision could not be written", code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
        self._stop(partition.name.partition, refusal)
        self._loop.call_later(RELOAD_DELAY_S, self._lead_again, partition)

    def _lead_again(self, partition: Partition) -> None:
        if partition.leads:
            self.lead(partition)

    def _stop(self, index: int, error: KafkaError) -> None:
        shard = self._loaded.pop(index, None)
        if shard is not None:
            shard.stop(error)

    async def _load_and_start(self, partition: Partition) -> None:
        started_at = self._loop.time()
        shard, count = await self._load(partition)
        self._loaded[partition.name.partition] = shard
        shard.start()
        if count:
            took_ms = int((self._loop.time() - started_at) * 1000)
            events.info("partition_loaded", partition=partition.name, records=count, took_ms=took_ms)

    def _ended_loading(self, partition: Partition, task: Task[None]) -> None:
        if self._loading.get(partition.name.partition) is task:
            del self._loading[partition.name.partition]
        if not task.cancelled() and (error := task.exception()) is not None:
            events.error("partition_not_loaded", partition=partition.name, cause=error)
            self._loop.call_later(RELOAD_DELAY_S, self._lead_again, partition)
