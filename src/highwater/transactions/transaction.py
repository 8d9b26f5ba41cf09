"""What is known of one transactional id, and the moves from one state of it to the next."""

from collections.abc import Iterable
from typing import Final, NamedTuple

from highwater.model.ids import NO_PRODUCER_ID, ProducerId, TopicPartition
from highwater.transactions.states import State, moved

NO_EPOCH: Final = -1
MAX_EPOCH: Final = 2**15 - 1
NOT_STARTED: Final = -1
NEVER_MS: Final = 2**31 - 1
"""The timeout of a transaction that somebody else coordinates (KIP-939)."""
CLASSIC_VERSION: Final = 0
RAISES_EPOCH_VERSION: Final = 2
"""The `transaction.version` by which every transaction has an epoch of its own (KIP-890, part 2)."""


class Producer(NamedTuple):
    """Who writes: an id, and an epoch that rises whenever an older instance must be kept out."""

    id: ProducerId
    epoch: int


def is_exhausted(epoch: int) -> bool:
    """Whether no further epoch may be given to a client: the very last one is kept for fencing."""
    return epoch >= MAX_EPOCH - 1


class Transaction(NamedTuple):
    """A transactional id with its producer and its current transaction; never changed, only replaced.

    A record of the log holds all of it but `last_epoch`.
    """

    transactional_id: str
    producer: Producer
    state: State
    timeout_ms: int
    updated_at_ms: int
    started_at_ms: int = NOT_STARTED
    partitions: frozenset[TopicPartition] = frozenset()
    previous_producer_id: ProducerId = NO_PRODUCER_ID
    """Whose epochs were used up before this producer's."""
    next_producer_id: ProducerId = NO_PRODUCER_ID
    """Who takes over when the transaction that uses up the epochs is complete; or who may end one that was kept."""
    next_epoch: int = NO_EPOCH
    """With `next_producer_id`: set while the transaction was kept for whoever has the id now (KIP-939)."""
    last_epoch: int = NO_EPOCH
    """The epoch before, while a client may still name it: it then repeats a request whose answer it has missed."""
    client_version: int = CLASSIC_VERSION
    """The `transaction.version` by which the client works; the classic one where a newer instance took its place."""

    @property
    def is_kept(self) -> bool:
        """Whether it is open, and only to be ended, by somebody else than who began it."""
        return self.state is State.ONGOING and self.next_epoch != NO_EPOCH

    @property
    def holder(self) -> Producer:
        """Who may act for the transactional id."""
        return Producer(self.next_producer_id, self.next_epoch) if self.is_kept else self.producer

    def kept_for(self, holder: Producer, *, now_ms: int) -> "Transaction":
        """Return it open as it was, to be ended by `holder`."""
        return self._replace(
            state=moved(self.state, State.ONGOING),
            next_producer_id=holder.id,
            next_epoch=holder.epoch,
            last_epoch=NO_EPOCH,
            updated_at_ms=now_ms,
        )

    def with_next_epoch(self) -> "Transaction":
        """Return it with an epoch for its markers that is above all that wrote or held it."""
        holder = self.holder
        if holder.id == self.producer.id:
            assert holder.epoch < MAX_EPOCH, "the last epoch is never given to a client"
            return self._replace(
                producer=Producer(holder.id, holder.epoch + 1), next_producer_id=NO_PRODUCER_ID, next_epoch=NO_EPOCH
            )
        return self._replace(
            producer=Producer(self.producer.id, min(self.producer.epoch + 1, MAX_EPOCH)), next_epoch=holder.epoch + 1
        )

    def with_partitions(self, added: Iterable[TopicPartition], *, client_version: int, now_ms: int) -> "Transaction":
        """Return it open, with more partitions."""
        return self._replace(
            state=moved(self.state, State.ONGOING),
            partitions=self.partitions.union(added),
            started_at_ms=now_ms if self.state.is_settled else self.started_at_ms,
            updated_at_ms=now_ms,
            client_version=client_version,
        )

    def taken_over(self, *, now_ms: int) -> "Transaction":
        """Return it on the way to be aborted, because somebody else has the id now.

        Its producer must not be taken for one that ended it and missed the answer, which has the next epoch.
        """
        return self.fenced(now_ms=now_ms)._replace(client_version=CLASSIC_VERSION)

    def fenced(self, *, now_ms: int) -> "Transaction":
        """Return it on the way to be aborted, with an epoch that keeps its producer out from now on."""
        fence = moved(self.state, State.PREPARE_EPOCH_FENCE)
        return self.with_next_epoch()._replace(
            state=moved(fence, State.PREPARE_ABORT), last_epoch=NO_EPOCH, updated_at_ms=now_ms
        )

    def completed(self, *, now_ms: int) -> "Transaction":
        """Return it with a marker in every partition."""
        outcome = State.COMPLETE_COMMIT if self.state is State.PREPARE_COMMIT else State.COMPLETE_ABORT
        complete = self._replace(
            state=moved(self.state, outcome),
            partitions=frozenset(),
            updated_at_ms=now_ms,
        )
        if self.next_producer_id == NO_PRODUCER_ID:
            return complete
        return complete._replace(
            producer=Producer(self.next_producer_id, max(self.next_epoch, 0)),
            previous_producer_id=self.producer.id,
            next_producer_id=NO_PRODUCER_ID,
            next_epoch=NO_EPOCH,
        )
