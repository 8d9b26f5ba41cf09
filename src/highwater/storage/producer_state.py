"""What a log remembers of its producers: sequences for idempotence, and open transactions (KIP-98).

A batch is checked and remembered when it is staged, and that becomes true when it is written: `staged` lies over
`written` until then, and is thrown away when the write fails.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from highwater.storage.errors import (
    InvalidProducerEpoch,
    InvalidTransactionState,
    OutOfOrderSequence,
    TransactionCoordinatorFenced,
)

REMEMBERED_BATCHES: Final = 5
"""As many as a producer may have in flight: a retry can only be of one of these."""

NO_SEQUENCE: Final = -1
NO_EPOCH: Final = -1
NO_OFFSET: Final = -1
_MAX_SEQUENCE: Final = 2**31 - 1
_NEW: Final = tuple.__new__


class ProducedBatch(NamedTuple):
    """One batch of a producer."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """The sequence of its first record; they wrap from 2**31 - 1 to 0."""
        return (self.last_sequence - self.offset_delta) & _MAX_SEQUENCE

    @property
    def first_offset(self) -> int:
        """The offset of its first record."""
        return self.last_offset - self.offset_delta


class ProducerState(NamedTuple):
    """What is known of one producer; never changed, only replaced."""

    producer_id: int
    epoch: int
    batches: tuple[ProducedBatch, ...]
    last_timestamp: int
    coordinator_epoch: int = NO_EPOCH
    transaction_first_offset: int = NO_OFFSET

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        """The offset of the last record."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def has_open_transaction(self) -> bool:
        """Whether a transaction was begun and not yet ended."""
        return self.transaction_first_offset >= 0

    def batch_of(self, first_sequence: int, last_sequence: int) -> ProducedBatch | None:
        """Return the remembered batch of exactly these sequences."""
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == first_sequence:
                return batch
        return None


class ProducerStates:
    """The producers of one log."""

    __slots__ = ("staged", "written")

    def __init__(self, states: Iterable[ProducerState] = ()) -> None:
        self.written = {state.producer_id: state for state in states}
        self.staged: dict[int, ProducerState] = {}

    def __len__(self) -> int:
        return len(self.written)

    def __iter__(self) -> Iterator[ProducerState]:
        return iter(self.written.values())

    def get(self, producer_id: int) -> ProducerState | None:
        """Return what is known of a producer, staged batches included."""
        return self.staged.get(producer_id) or self.written.get(producer_id)

    def admit(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        base_offset: int,
        last_offset: int,
        timestamp: int,
        transactional: bool,  # noqa: FBT001 - a keyword costs on this path
    ) -> ProducedBatch | None:
        """Check a client's batch and remember it; return the earlier batch that it repeats instead, if it does.

        A producer that we know nothing of may go on at any sequence: its records may have expired, and refusing would
        only lose more. So does Apache Kafka since KIP-360.
        """
        state = self.staged.get(producer_id) or self.written.get(producer_id)
        last_sequence = (base_sequence + last_offset - base_offset) & _MAX_SEQUENCE
        if state is not None and (
            epoch != state.epoch
            or base_sequence != (state.last_sequence + 1) & _MAX_SEQUENCE
            or (state.transaction_first_offset >= 0 and not transactional)
        ):
            if epoch == state.epoch and (repeated := state.batch_of(base_sequence, last_sequence)) is not None:
                return repeated
            self._check_follows(state, epoch, base_sequence, transactional=transactional)
        self._stage(state, producer_id, epoch, last_sequence, base_offset, last_offset, timestamp, transactional)
        return None

    def _check_follows(self, state: ProducerState, epoch: int, base_sequence: int, *, transactional: bool) -> None:
        """Raise unless a batch may follow what is known of its producer."""
        self.check_epoch(state.producer_id, epoch)
        if state.has_open_transaction and not transactional:
            raise InvalidTransactionState(
                f"producer {state.producer_id} sent a batch outside of the transaction that it has open "
                f"since offset {state.transaction_first_offset}"
            )
        expected = 0 if epoch > state.epoch else (state.last_sequence + 1) & _MAX_SEQUENCE
        if base_sequence != expected:
            raise OutOfOrderSequence(
                f"producer {state.producer_id} of epoch {epoch} sent sequence {base_sequence}, expected was {expected}"
            )

    def check_epoch(self, producer_id: int, epoch: int) -> None:
        """Raise when a newer instance of the producer is known."""
        state = self.get(producer_id)
        if state is not None and epoch < state.epoch:
            raise InvalidProducerEpoch(
                f"producer {producer_id} sent epoch {epoch}, the partition has seen epoch {state.epoch}"
            )

    def stage_batch(
        self,
        producer_id: int,
        epoch: int,
        last_sequence: int,
        base_offset: int,
        last_offset: int,
        timestamp: int,
        *,
        transactional: bool,
    ) -> None:
        """Remember a batch of records that was checked before, by us or by the leader."""
        state = self.get(producer_id)
        self._stage(state, producer_id, epoch, last_sequence, base_offset, last_offset, timestamp, transactional)

    def _stage(
        self,
        state: ProducerState | None,
        producer_id: int,
        epoch: int,
        last_sequence: int,
        base_offset: int,
        last_offset: int,
        timestamp: int,
        transactional: bool,  # noqa: FBT001 - a keyword costs on this path
    ) -> None:
        # tuple.__new__ makes a NamedTuple in half the time of its own constructor.
        batch = _NEW(ProducedBatch, (last_sequence, last_offset, last_offset - base_offset, timestamp))
        batches: tuple[ProducedBatch, ...] = (batch,)
        coordinator_epoch, first_offset = NO_EPOCH, NO_OFFSET
        if state is not None:
            _, known_epoch, known_batches, _, coordinator_epoch, first_offset = state
            if epoch == known_epoch:
                batches = (*known_batches[1 - REMEMBERED_BATCHES :], batch)
        if transactional and first_offset < 0:
            first_offset = base_offset
        self.staged[producer_id] = _NEW(
            ProducerState, (producer_id, epoch, batches, timestamp, coordinator_epoch, first_offset)
        )

    def check_marker(self, producer_id: int, epoch: int, coordinator_epoch: int) -> None:
        """Raise when a transaction marker comes from a coordinator, or for a producer, that has been replaced."""
        self.check_epoch(producer_id, epoch)
        state = self.get(producer_id)
        if state is not None and coordinator_epoch < state.coordinator_epoch:
            raise TransactionCoordinatorFenced(
                f"marker for producer {producer_id} from coordinator epoch {coordinator_epoch}, "
                f"the partition has seen {state.coordinator_epoch}"
            )

    def stage_marker(self, producer_id: int, epoch: int, *, coordinator_epoch: int, timestamp: int) -> None:
        """Remember a transaction marker; it was checked, or comes from the log."""
        state = self.get(producer_id)
        batches = state.batches if state is not None and epoch == state.epoch else ()
        self.staged[producer_id] = ProducerState(producer_id, epoch, batches, timestamp, coordinator_epoch)

    def commit_staged(self) -> None:
        """Make true what was staged: its batches are written."""
        self.written.update(self.staged)
        self.staged.clear()

    def discard_staged(self) -> None:
        """Forget what was staged: it was not written."""
        self.staged.clear()

    def remove_expired(self, now_ms: int, expiration_ms: int) -> None:
        """Forget the producers that were silent for `producer.id.expiration.ms` and have no transaction open."""
        expired = [
            state.producer_id
            for state in self.written.values()
            if not state.has_open_transaction and now_ms - state.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self.written[producer_id]
