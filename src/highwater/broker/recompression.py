"""Batches compressed anew, for topics whose `compression.type` is not their producers' choice.

The codecs let go of the interpreter while they work, so that threads do it beside the loop. A request waits until all
its batches are done, and requests are appended in the order in which they came: a producer's sequence stays whole.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from highwater.broker.delayed_produce import DelayedProduce
from highwater.broker.held_produce import HeldProduce
from highwater.model.errors import KafkaError
from highwater.model.log_events import EventLog
from highwater.protocol.records.batch import CODEC_MASK, HEADER_BYTES, read_header
from highwater.protocol.records.compression import Codec
from highwater.protocol.records.errors import InvalidRecord
from highwater.protocol.records.record import recompress
from highwater.protocol.records.validate import check_produced

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor

    from highwater.broker.appends import Appends
    from highwater.broker.partition import Partition
    from highwater.model.ids import TopicPartition
    from highwater.protocol.messages.produce import PartitionProduceData, ProduceResponse

events = EventLog("broker")

MAX_HELD_BYTES: Final = 64 * 1024 * 1024
"""Batches that wait to be compressed, of all connections; above this, those who sent them are not read from."""
INLINE_BYTES: Final = 4096
"""What is this small, and not compressed yet, is done at once: a thread would cost more (0.9 ms at the most)."""

Outcome: TypeAlias = "ProduceResponse | DelayedProduce | HeldProduce | None"
Refusals: TypeAlias = "Mapping[TopicPartition, KafkaError]"
GoOn: TypeAlias = "Callable[[Refusals], Outcome]"


class Task(NamedTuple):
    """One batch of a request, and how it shall be compressed."""

    name: TopicPartition
    data: PartitionProduceData
    codec: Codec
    level: int | None

    def run(self, batch: memoryview | bytes) -> bytearray:
        """Return the batch as the topic wants it; any thread may call this. Raises KafkaError."""
        try:
            return recompress(batch, self.codec, self.level)
        except KafkaError as error:
            # Its checksum is right: the producer made it so, and sending it again would not help.
            raise InvalidRecord(f"the batch cannot be decompressed: {error.message}") from error


def task_for(partition: Partition, data: PartitionProduceData) -> Task | None:
    """Return what is to be done to a batch; None if it is as its topic wants it, or bad: then its append says so."""
    config, records = partition.log.config, data.records
    if config.compression is None or records is None or len(records) < HEADER_BYTES:
        return None
    try:
        header = check_produced(records, max_message_bytes=config.max_message_bytes)
    except KafkaError:
        return None
    if header.attributes & CODEC_MASK == config.compression:
        return None
    return Task(partition.name, data, config.compression, config.compression_level)


class RecompressedProduce:
    """A Produce whose batches are being compressed anew; then it is appended, and waits like any other."""

    __slots__ = ("_answer", "_go_on", "_is_cancelled", "_outcome", "left", "names", "refusals", "size_bytes")

    def __init__(self, names: Sequence[TopicPartition], go_on: GoOn, *, size_bytes: int) -> None:
        self._go_on = go_on
        self._answer: Callable[[ProduceResponse], None] | None = None
        self._outcome: Outcome = None
        self._is_cancelled = False
        self.names = names
        self.size_bytes = size_bytes
        self.left = 0
        """Batches that threads still work on."""
        self.refusals: dict[TopicPartition, KafkaError] = {}

    def append(self, appends: Appends) -> None:
        """Go on: every batch is ready, and every earlier request is appended."""
        try:
            self._outcome = self._go_on(self.refusals)
        except KafkaError as error:  # acks=0: nobody waits for an answer, and the connection has gone on
            events.warning("append_failed", reason=str(error))
        appends.finish()
        self._wait_for_outcome()

    def start(self, answer: Callable[[ProduceResponse], None]) -> None:
        """Answer when everything is done."""
        self._answer = answer
        self._wait_for_outcome()

    def cancel(self) -> None:
        """The client is gone; what it sent is appended all the same, as if it had gone a moment later."""
        self._is_cancelled = True
        if isinstance(self._outcome, DelayedProduce | HeldProduce):
            self._outcome.cancel()

    def _wait_for_outcome(self) -> None:
        if self._answer is None or self._outcome is None or self._is_cancelled:
            return
        if isinstance(self._outcome, DelayedProduce | HeldProduce):
            self._outcome.start(self._answer)
        else:
            self._answer(self._outcome)


class Recompression:
    """The partitions that want it, and the requests that wait for it."""

    __slots__ = (
        "_appends",
        "_executor",
        "_held",
        "_loop",
        "_names",
        "batches",
        "held_bytes",
        "is_wanted",
        "partitions",
    )

    def __init__(self, loop: AbstractEventLoop, executor: Executor, appends: Appends) -> None:
        self._loop = loop
        self._executor = executor
        self._appends = appends
        self._held: deque[RecompressedProduce] = deque()
        self._names: Counter[TopicPartition] = Counter()
        self.partitions: set[TopicPartition] = set()
        """Those whose topics say how to compress."""
        self.is_wanted = False
        """Whether some partition is concerned: nearly always none is. No property, because every Produce asks."""
        self.held_bytes = 0
        self.batches = 0
        """How many were compressed anew."""

    def follow(self, partition: Partition) -> None:
        """Know what a partition's settings say by now."""
        if partition.log.config.compression is None:
            self.partitions.discard(partition.name)
        else:
            self.partitions.add(partition.name)
        self._note_whether_wanted()

    def forget(self, name: TopicPartition) -> None:
        """Know a partition no longer."""
        self.partitions.discard(name)
        self._note_whether_wanted()

    def _note_whether_wanted(self) -> None:
        self.is_wanted = bool(self.partitions or self._held)

    @property
    def is_full(self) -> bool:
        """Whether so much waits that no more should be accepted."""
        return self.held_bytes > MAX_HELD_BYTES

    def hold(
        self, tasks: Sequence[Task], batches: Sequence[tuple[TopicPartition, PartitionProduceData]], go_on: GoOn
    ) -> RecompressedProduce | None:
        """Compress what `tasks` say, append with `go_on` and return the wait for it; None if nothing has to wait.

        `batches` are all of the request. One that needs no work waits too while an earlier one of its partition does.
        """
        names = [name for name, _ in batches]
        if self._names.keys().isdisjoint(names) and _are_small(tasks):
            for task in tasks:
                assert task.data.records is not None
                task.data.records = memoryview(task.run(task.data.records))
            self.batches += len(tasks)
            return None
        # What lies in the connection's buffer is gone after this turn.
        for _, data in batches:
            data.records = memoryview(bytearray(data.records or b""))
        held = RecompressedProduce(names, go_on, size_bytes=sum(len(data.records or b"") for _, data in batches))
        self.held_bytes += held.size_bytes
        self._names.update(held.names)
        self._held.append(held)
        for task in tasks:
            self._begin(held, task)
        return held  # without tasks it is appended with the one it waits for

    def close(self) -> None:
        """Append nothing more of what waits."""
        self._held.clear()

    def _begin(self, held: RecompressedProduce, task: Task) -> None:
        assert task.data.records is not None
        held.left += 1
        future = self._loop.run_in_executor(self._executor, task.run, task.data.records)
        future.add_done_callback(lambda done: self._one_done(held, task, done))

    def _one_done(self, held: RecompressedProduce, task: Task, done: Future[bytearray]) -> None:
        held.left -= 1
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            task.data.records = memoryview(done.result())
            self.batches += 1
        elif isinstance(error, KafkaError):
            held.refusals[task.name] = error
        else:
            raise error
        self._append_ready()

    def _append_ready(self) -> None:
        while self._held and self._held[0].left == 0:
            held = self._held.popleft()
            self.held_bytes -= held.size_bytes
            self._names -= Counter(held.names)
            held.append(self._appends)
        self._note_whether_wanted()


def _are_small(tasks: Sequence[Task]) -> bool:
    total = 0
    for task in tasks:
        records = task.data.records
        assert records is not None
        total += len(records)
        if read_header(records).codec != Codec.NONE:
            return False
    return total <= INLINE_BYTES
