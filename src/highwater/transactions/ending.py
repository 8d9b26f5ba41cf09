"""EndTxn: the outcome of a transaction is decided. From then on it completes, whatever dies (KIP-98, KIP-890)."""

from typing import NamedTuple

from highwater.model.ids import ProducerId
from highwater.transactions.refusals import (
    InvalidTransactionState,
    NoFreshId,
    ProducerFenced,
    UnknownProducer,
    unfinished,
)
from highwater.transactions.shard import TransactionShard
from highwater.transactions.states import State, moved
from highwater.transactions.transaction import (
    CLASSIC_VERSION,
    MAX_EPOCH,
    NO_EPOCH,
    RAISES_EPOCH_VERSION,
    Producer,
    Transaction,
    is_exhausted,
)


class Asked(NamedTuple):
    """How a producer ends its transaction."""

    transactional_id: str
    producer: Producer
    commits: bool
    raises_epoch: bool = False
    """Whether every transaction has an epoch of its own: `transaction.version` 2 (KIP-890, part 2)."""


class Decision(NamedTuple):
    """What to write, and who the producer is in its next transaction."""

    transaction: Transaction
    """Prepared; or complete, when all of it was done before and the client has missed the answer. Then it is written
    again: a coordinator that was replaced and does not know it must not answer from memory, for what it remembers may
    be the end of an earlier transaction."""
    producer: Producer


def needs_fresh_id(shard: TransactionShard, asked: Asked) -> bool:
    """Whether this transaction uses up the epochs of its producer id."""
    known = shard.transactions.get(asked.transactional_id)
    return asked.raises_epoch and known is not None and known.holder == asked.producer and _is_last(asked.producer)


def _is_last(producer: Producer) -> bool:
    return is_exhausted(producer.epoch)


def decide(shard: TransactionShard, asked: Asked, *, fresh_id: ProducerId | None, now_ms: int) -> Decision:
    """Decide the outcome, or refuse."""
    known = shard.transactions.get(asked.transactional_id)
    if known is None:
        raise UnknownProducer(f"{asked.transactional_id!r} is not known")
    is_retry = asked.raises_epoch and _asks_again(known, asked.producer)
    if asked.producer.id not in {known.producer.id, known.holder.id} and not is_retry:
        raise UnknownProducer(f"{asked.transactional_id!r} does not belong to producer {asked.producer.id}")
    is_holder = known.holder == asked.producer and asked.producer.epoch < MAX_EPOCH  # The last one fences, only.
    if not is_holder and not is_retry:
        raise ProducerFenced(theirs=asked.producer, ours=known.holder)
    prepared, complete = (
        (State.PREPARE_COMMIT, State.COMPLETE_COMMIT) if asked.commits else (State.PREPARE_ABORT, State.COMPLETE_ABORT)
    )
    is_next = asked.raises_epoch and not is_retry  # It ends the transaction that follows the one we know of.
    if known.state is prepared or (known.state.is_prepared and is_next):
        raise unfinished(known)
    if known.state is complete and not is_next:
        return Decision(known, known.producer)
    aborts_nothing = is_next and not asked.commits and known.state.is_settled
    if is_retry or not (known.state is State.ONGOING or aborts_nothing):
        word = "commit" if asked.commits else "abort"
        raise InvalidTransactionState(f"{asked.transactional_id!r} is in {known.state.label}: nothing to {word}")
    transaction = _prepared(known, asked, fresh_id=fresh_id, now_ms=now_ms)
    return Decision(transaction, transaction.completed(now_ms=now_ms).producer)


def _asks_again(known: Transaction, producer: Producer) -> bool:
    """Whether the producer is the one whose transaction was ended, and has missed that its epoch was raised.

    Once something else has begun, by itself or by a newer instance, it is late or a zombie, and fenced. So is one whose
    place was taken by an instance that keeps its epoch: it would be told of the end of another's transaction.
    """
    if known.state in {State.EMPTY, State.ONGOING} or known.client_version < RAISES_EPOCH_VERSION:
        return False
    if producer == Producer(known.producer.id, known.producer.epoch - 1):
        return True
    return producer == Producer(known.previous_producer_id, MAX_EPOCH - 1) and known.producer.epoch == 0


def _prepared(known: Transaction, asked: Asked, *, fresh_id: ProducerId | None, now_ms: int) -> Transaction:
    target = State.PREPARE_COMMIT if asked.commits else State.PREPARE_ABORT
    transaction = known._replace(
        state=moved(known.state, target),
        started_at_ms=now_ms if known.state.is_settled else known.started_at_ms,
        updated_at_ms=now_ms,
    )
    if known.is_kept or asked.raises_epoch:
        raised = known.with_next_epoch()
        transaction = transaction._replace(
            producer=raised.producer, next_producer_id=raised.next_producer_id, next_epoch=raised.next_epoch
        )
    if not asked.raises_epoch:
        return transaction._replace(client_version=CLASSIC_VERSION)
    transaction = transaction._replace(last_epoch=known.holder.epoch, client_version=RAISES_EPOCH_VERSION)
    if not _is_last(known.holder):
        return transaction
    if fresh_id is None:
        raise NoFreshId("a new producer id is needed; ask again")
    return transaction._replace(next_producer_id=fresh_id, next_epoch=NO_EPOCH)
