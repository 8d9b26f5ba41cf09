"""A coordinator's own partition: decisions go in, and are told when they are committed.

All that is decided in one turn of the loop leaves as one batch. The coordinator's memory is ahead of its log by that
much; if the write fails, `on_failure` has it rebuilt from the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import Offset
from highwater.protocol.records.batch import HEADER_BYTES
from highwater.protocol.records.compression import Codec
from highwater.protocol.records.record import build_batch, numbered

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Handle, TimerHandle
    from collections.abc import Iterable

    from highwater.broker.appends import Appends
    from highwater.broker.partition import Partition

Done: TypeAlias = Callable[[KafkaError | None], None]
KeyAndValue: TypeAlias = tuple[bytes, bytes | None]

RECORD_OVERHEAD_BYTES: Final = 32
"""At most, for the lengths and deltas of one record in a batch."""


class JournalSettings(NamedTuple):
    """How a journal writes."""

    linger_ms: int = 0
    """0: with whatever else this turn of the loop decides."""
    commit_timeout_ms: int = 5_000
    codec: Codec = Codec.NONE


class _Receipt:
    """What the partition marks if a write fails."""

    __slots__ = ("base_offset", "error_code")

    def __init__(self) -> None:
        self.error_code = 0
        self.base_offset = -1


class _Flight:
    """Records that are written and not committed yet, and who waits for that."""

    __slots__ = ("_journal", "timer", "waiting")

    def __init__(self, journal: Journal, waiting: list[Done]) -> None:
        self._journal = journal
        self.waiting = waiting
        self.timer: TimerHandle | None = None

    def committed(self) -> None:
        """Tell everybody; the partition calls this in the order of offsets."""
        self._journal.landed(self)
        self.end(None)

    def refused(self, code: ErrorCode) -> None:
        """Tell everybody where to go, or to ask again later."""
        self._journal.landed(self)
        self.end(_as_coordinators_error(KafkaError("the replicas did not confirm", code=code)))

    def time_is_up(self) -> None:
        """Tell everybody to ask again later. The records stand, and so does what was decided."""
        self.timer = None
        self.end(KafkaError("the replicas did not confirm in time", code=ErrorCode.COORDINATOR_NOT_AVAILABLE))

    def end(self, error: KafkaError | None) -> None:
        """Stop waiting."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        waiting, self.waiting = self.waiting, []
        for done in waiting:
            done(error)


class Journal:
    """Writes to one partition, in order, and knows what of it is committed."""

    __slots__ = (
        "_appends",
        "_batch",
        "_batch_bytes",
        "_batches",
        "_flights",
        "_flush_handle",
        "_is_closed",
        "_loop",
        "_on_failure",
        "_settings",
        "_waiting",
        "_wall_ms",
        "partition",
    )

    def __init__(
        self,
        partition: Partition,
        *,
        loop: AbstractEventLoop,
        appends: Appends,
        wall_ms: Callable[[], int],
        settings: JournalSettings,
        on_failure: Callable[[KafkaError], None],
    ) -> None:
        self.partition = partition
        self._loop = loop
        self._appends = appends
        self._wall_ms = wall_ms
        self._settings = settings
        self._on_failure = on_failure
        self._batch: list[KeyAndValue] = []
        self._batch_bytes = HEADER_BYTES
        self._batches: list[list[KeyAndValue]] = []
        self._waiting: list[Done] = []
        self._flights: deque[_Flight] = deque()
        self._flush_handle: Handle | None = None
        self._is_closed = False
        # What a new leader finds in its log may not be committed yet; until it is, nobody is told of it.
        self._take_off(_Flight(self, []), Offset(partition.log.log_end_offset))

    @property
    def max_batch_bytes(self) -> int:
        """How much the topic takes in one batch."""
        return self.partition.log.config.max_message_bytes

    @property
    def is_busy(self) -> bool:
        """Whether anything is not committed yet."""
        return self._flush_handle is not None or bool(self._flights)

    def write(self, records: Iterable[KeyAndValue]) -> None:
        """Take in records; they are written before the loop turns again (or after the linger)."""
        limit_bytes = self.max_batch_bytes
        for record in records:
            size_bytes = record_bytes(record)
            if self._batch and self._batch_bytes + size_bytes > limit_bytes:
                self._batches.append(self._batch)
                self._batch, self._batch_bytes = [], HEADER_BYTES
            self._batch.append(record)
            self._batch_bytes += size_bytes
        if self._batch and self._flush_handle is None:
            linger_ms = self._settings.linger_ms
            self._flush_handle = (
                self._loop.call_later(linger_ms / 1000, self._flush) if linger_ms else self._loop.call_soon(self._flush)
            )

    def write_batch(self, batch: bytearray) -> None:
        """Write a batch that was made elsewhere, a part of a transaction or its end, after all that came before it.

        Raises KafkaError, and nothing of it happened.
        """
        if self._flush_handle is not None:
            self._flush_handle.cancel()
            self._flush()
        self._check_open()
        receipt = _Receipt()
        self.partition.check_enough_replicas()
        staged = self.partition.stage_from_coordinator(memoryview(batch), now_ms=self._wall_ms(), receipt=receipt)
        self._appends.finish()
        self._check(receipt)
        self._take_off(_Flight(self, []), Offset(staged.last_offset + 1))

    def when_committed(self, done: Done) -> None:
        """Call `done` once all that was taken in so far is committed: now, if it is."""
        if self._flush_handle is not None:
            self._waiting.append(done)
        elif self._flights:
            last = self._flights[-1]
            last.waiting.append(done)
            if last.timer is None:  # It is late already; whoever comes now waits no longer than the others did.
                self._limit_wait(last)
        else:
            done(None)

    def close(self, error: KafkaError) -> None:
        """Write nothing more; whoever waits gets `error`."""
        self._is_closed = True
        if self._flush_handle is not None:
            self._flush_handle.cancel()
            self._flush_handle = None
        self._batches.clear()
        self._batch = []
        waiting, self._waiting = self._waiting, []
        while self._flights:
            flight = self._flights.popleft()
            self.partition.forget(flight)
            flight.end(error)
        for done in waiting:
            done(error)

    def landed(self, flight: _Flight) -> None:
        """Forget a flight that is committed."""
        if flight in self._flights:
            self._flights.remove(flight)

    def _flush(self) -> None:
        self._flush_handle = None
        batches = [*self._batches, self._batch]
        self._batches, self._batch, self._batch_bytes = [], [], HEADER_BYTES
        waiting, self._waiting = self._waiting, []
        flight = _Flight(self, waiting)
        try:
            end_offset = self._write(batches)
        except KafkaError as error:
            flight.end(_as_coordinators_error(error))
            self._on_failure(error)
            return
        self._take_off(flight, end_offset)

    def _take_off(self, flight: _Flight, end_offset: Offset) -> None:
        if self.partition.when_committed(end_offset, flight):
            flight.end(None)
            return
        self._flights.append(flight)
        self._limit_wait(flight)

    def _limit_wait(self, flight: _Flight) -> None:
        flight.timer = self._loop.call_later(self._settings.commit_timeout_ms / 1000, flight.time_is_up)

    def _write(self, batches: list[list[KeyAndValue]]) -> Offset:
        """Write the batches and return the offset after the last of them."""
        self.partition.check_enough_replicas()
        receipt = _Receipt()
        wall_ms = self._wall_ms()
        end_offset = Offset(0)
        for records in batches:
            batch = build_batch(numbered(records, timestamp_ms=wall_ms), codec=self._settings.codec)
            staged = self.partition.stage(memoryview(batch), now_ms=wall_ms, receipt=receipt, has_keys=True)
            end_offset = Offset(staged.last_offset + 1)
        self._appends.finish()
        self._check(receipt)
        return end_offset

    def _check(self, receipt: _Receipt) -> None:
        if receipt.error_code:
            raise KafkaError(f"{self.partition.name} cannot be written", code=ErrorCode(receipt.error_code))

    def _check_open(self) -> None:
        if self._is_closed:
            raise KafkaError(f"{self.partition.name} is rebuilt", code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _as_coordinators_error(error: KafkaError) -> KafkaError:
    """Return what clients of a coordinator understand: find it anew when its disk failed, else ask again later."""
    failed = error.code in {ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.NOT_LEADER_OR_FOLLOWER}
    return KafkaError(error.message, code=ErrorCode.NOT_COORDINATOR if failed else ErrorCode.COORDINATOR_NOT_AVAILABLE)


def record_bytes(record: KeyAndValue) -> int:
    """Return how much room a record takes in a batch, or a little more."""
    key, value = record
    return len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES
