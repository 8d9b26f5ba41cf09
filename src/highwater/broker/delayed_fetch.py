"""A Fetch: answered at once if there is enough to read, otherwise when there is, or when its wait is over."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from highwater.model.errors import KafkaError
from highwater.model.ids import Offset
from highwater.protocol.messages.fetch import AbortedTransaction, PartitionData
from highwater.storage.errors import NotInMemory

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, Future, TimerHandle
    from collections.abc import Callable

    from highwater.broker.fetch_interest import FetchEntry, FetchInterest
    from highwater.broker.partition import Partition
    from highwater.model.ids import BrokerId
    from highwater.protocol.messages.fetch import FetchRequest, FetchResponse

MOST_READS_AHEAD: Final = 4
"""So often a fetch lets a thread read first, if the disk has to be asked; then it waits for the disk itself.

Once for an index and once for the batches is enough, unless memory is so short that they are forgotten at once.
"""

READ_COMMITTED: Final = 1
"""The isolation level that shows nothing of an open or aborted transaction."""


class Caller(Protocol):
    """Whoever asks: it knows what its entries name, and how its answer looks."""

    def find(self, entry: FetchEntry, /) -> Partition:
        """Return the partition that an entry names, or raise the error that its part of the answer carries."""

    def closer_replica(self, partition: Partition, offset: Offset, /) -> BrokerId | None:
        """Return who should be asked instead because it is closer to the caller."""

    def on_a_thread(self, work: Callable[[], None], /) -> Future[None]:
        """Have something done that waits for the disk."""

    def assemble(self, read: list[tuple[FetchEntry, PartitionData]], /) -> FetchResponse:
        """Return the response that carries these partitions."""


class Reading:
    """What one pass over the partitions found."""

    __slots__ = ("is_urgent", "size_bytes", "told", "unread")

    def __init__(self) -> None:
        self.told: list[tuple[FetchEntry, PartitionData]] = []
        self.unread: list[FetchEntry] = []
        self.size_bytes = 0
        self.is_urgent = False
        """Whether something of it should be told at once, however little there is to read."""

    def still_to_read(self) -> dict[FetchEntry, None]:
        """Return what the next poll must look at: first what found no room, last what was just served."""
        left = dict.fromkeys(self.unread)
        for entry, data in self.told:
            entry.sent_high_watermark = Offset(data.high_watermark)
            entry.sent_log_start_offset = Offset(data.log_start_offset)
            if data.records or data.error_code:
                left[entry] = None
        return left


class DelayedFetch:
    """One Fetch request from its arrival to its answer."""

    __slots__ = (
        "_answer",
        "_caller",
        "_cold",
        "_committed_only",
        "_full",
        "_gathered_bytes",
        "_interest",
        "_is_overdue",
        "_is_reading_ahead",
        "_keep_interest",
        "_loop",
        "_max_bytes",
        "_max_wait_ms",
        "_min_bytes",
        "_reads_ahead",
        "_timer",
        "_woken",
    )

    def __init__(
        self,
        loop: AbstractEventLoop,
        caller: Caller,
        request: FetchRequest,
        interest: FetchInterest,
        max_bytes: int,
        full: bool,  # noqa: FBT001 - a keyword costs on this path
    ) -> None:
        self._loop = loop
        self._caller = caller
        self._interest = interest
        self._full = full
        """Whether every partition must be in the answer, or only those with news."""
        self._keep_interest = interest.outlives_fetch
        self._committed_only = request.isolation_level == READ_COMMITTED
        self._min_bytes = request.min_bytes
        self._max_bytes = max_bytes
        self._max_wait_ms = request.max_wait_ms
        self._answer: Callable[[FetchResponse], None] | None = None
        self._timer: TimerHandle | None = None
        self._gathered_bytes = 0
        self._woken = False
        self._cold: list[Callable[[], object]] = []
        """What must be read from the disk before some partitions can be looked at."""
        self._reads_ahead = 0
        self._is_reading_ahead = False
        self._is_overdue = False

    def at_once(self) -> FetchResponse | None:
        """Return the answer if there is enough to read, or if the client does not wait; None if `start` must."""
        reading = self._read()
        if self._cold:
            if not self._is_worth_telling(reading):
                return None
            self._read_ahead()
        return self._answer_of(reading, last_chance=self._max_wait_ms <= 0)

    def start(self, answer: Callable[[FetchResponse], None]) -> None:
        """Read; answer if that is enough or the client does not wait, otherwise park."""
        self._answer = answer
        self._try_to_answer(last_chance=self._max_wait_ms <= 0)

    def gathered(self, size_bytes: int) -> bool:
        """Count data that has arrived; return True once it may be enough and nobody has said so yet."""
        self._gathered_bytes += size_bytes
        if self._woken or self._gathered_bytes < self._min_bytes:
            return False
        self._woken = True
        return True

    def wake(self) -> None:
        """Look again after data has arrived."""
        self._woken = False
        if self._answer is not None:
            self._try_to_answer(last_chance=False)

    def cancel(self) -> None:
        """The client is gone."""
        self._answer = None
        self._leave()

    def answer_now(self) -> None:
        """Answer with what there is: time is up, or the reader does not wait any longer."""
        if self._answer is not None:
            self._try_to_answer(last_chance=True)

    def _try_to_answer(self, *, last_chance: bool) -> None:
        self._is_overdue = self._is_overdue or last_chance
        if self._is_reading_ahead:
            return
        reading = self._read()
        if self._cold:
            self._read_ahead()
            if not self._is_worth_telling(reading):
                return
        response = self._answer_of(reading, last_chance=self._is_overdue)
        if response is None:
            self._gathered_bytes = reading.size_bytes
            self._park()
            return
        answer, self._answer = self._answer, None
        if self._timer is not None:
            self._leave()
        assert answer is not None
        answer(response)

    @staticmethod
    def _is_worth_telling(reading: Reading) -> bool:
        """Say whether what is in memory shall not wait for what is on the disk only."""
        return reading.size_bytes > 0 or reading.is_urgent

    def _read_ahead(self) -> None:
        """Let a thread read what is not in memory, and look again then; or let the next fetch, if this one is over."""
        self._reads_ahead += 1
        self._is_reading_ahead = True
        self._caller.on_a_thread(partial(_read_all, self._cold)).add_done_callback(self._has_read_ahead)

    def _has_read_ahead(self, done: Future[None]) -> None:
        self._is_reading_ahead = False
        if not done.cancelled() and done.exception() is not None:
            self._reads_ahead = MOST_READS_AHEAD  # the disk fails: look without a thread, and meet the error there
        if self._answer is not None:
            self._try_to_answer(last_chance=False)

    @property
    def _may_wait(self) -> bool:
        return self._reads_ahead >= MOST_READS_AHEAD

    def _answer_of(self, reading: Reading, *, last_chance: bool) -> FetchResponse | None:
        """Return the answer that carries what was read, unless it is worth waiting for more."""
        if reading.size_bytes < self._min_bytes and not last_chance and not reading.is_urgent:
            return None
        if self._keep_interest:
            self._interest.changed = reading.still_to_read()
        return self._caller.assemble(reading.told)

    def _park(self) -> None:
        if self._timer is None:
            for entry in () if self._keep_interest else self._interest.entries.values():
                entry.follow(self._caller.find(entry))
            self._timer = self._loop.call_later(self._max_wait_ms / 1000, self.answer_now)
            self._interest.waiting = self

    def _leave(self) -> None:
        """Stop waiting."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._interest.waiting is self:
            self._interest.waiting = None
        if not self._keep_interest:
            self._interest.close()

    def _read(self) -> Reading:
        """Read every partition that may have something, within the request's budget.

        The first batch found is taken even when it is larger than asked (KIP-74), or a reader could never pass it.
        """
        reading = Reading()
        self._cold = []
        for entry in self._interest.entries.values() if self._full else self._interest.changed:
            left_bytes = self._max_bytes - reading.size_bytes
            first = reading.size_bytes == 0
            if left_bytes <= 0 and not first:
                reading.unread.append(entry)
                if not self._full:
                    continue
            cold = len(self._cold)
            data = self._read_entry(entry, left_bytes, at_least_one_batch=first)
            if len(self._cold) > cold:
                reading.unread.append(entry)
            size_bytes = len(data.records) if data.records is not None else 0
            reading.size_bytes += size_bytes
            urgent = bool(data.error_code) or data.diverging_epoch is not None or data.preferred_read_replica >= 0
            reading.is_urgent = reading.is_urgent or urgent
            if self._full or size_bytes or urgent or _is_news(entry, data):
                reading.told.append((entry, data))
        return reading

    def _read_entry(self, entry: FetchEntry, budget_bytes: int, *, at_least_one_batch: bool) -> PartitionData:
        index = entry.key[1]
        try:
            partition = self._caller.find(entry)
            if self._keep_interest:
                entry.follow(partition)
            partition.check_epoch(entry.known_epoch)
            records = None
            closer = self._caller.closer_replica(partition, entry.fetch_offset)
            if closer is None and (budget_bytes > 0 or at_least_one_batch):
                records = partition.read(
                    entry.fetch_offset,
                    max_bytes=min(entry.max_bytes, budget_bytes),
                    committed_only=self._committed_only,
                    at_least_one_batch=at_least_one_batch,
                    may_wait=self._may_wait,
                )
        except NotInMemory as error:
            return self._cold_entry(partition, entry, error)
        except KafkaError as error:
            entry.unfollow()
            return PartitionData(
                partition_index=index, error_code=error.code, high_watermark=-1, last_stable_offset=-1, records=b""
            )
        return PartitionData(
            partition_index=index,
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            aborted_transactions=self._aborted(partition, entry.fetch_offset, records is not None),
            preferred_read_replica=-1 if closer is None else closer,
            records=records if records is not None else b"",
        )

    def _cold_entry(self, partition: Partition, entry: FetchEntry, error: NotInMemory) -> PartitionData:
        """Return what is known of a partition whose batches have to be read from the disk first."""
        self._cold.append(error.fetch)
        return PartitionData(
            partition_index=entry.key[1],
            high_watermark=partition.high_watermark,
            last_stable_offset=partition.last_stable_offset,
            log_start_offset=partition.log.log_start_offset,
            records=b"",
        )

    def _aborted(self, partition: Partition, start: Offset, has_records: bool) -> list[AbortedTransaction] | None:  # noqa: FBT001
        if not self._committed_only:
            return None
        if not has_records:
            return []
        return [
            AbortedTransaction(producer_id=aborted.producer_id, first_offset=aborted.first_offset)
            for aborted in partition.log.aborted_transactions(start, partition.last_stable_offset)
        ]


def _read_all(cold: list[Callable[[], object]]) -> None:
    for fetch in cold:
        fetch()


def _is_news(entry: FetchEntry, data: PartitionData) -> bool:
    """Return whether an incremental answer must mention this partition although it has no records."""
    return entry.sent_high_watermark != data.high_watermark or entry.sent_log_start_offset != data.log_start_offset
