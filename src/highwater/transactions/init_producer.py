"""InitProducerId: a producer for a transactional id; whoever had it before is kept out (KIP-98, KIP-360)."""

from typing import NamedTuple

from highwater.model.errors import ErrorCode, KafkaError
from highwater.model.ids import ProducerId
from highwater.transactions.refusals import NoFreshId, ProducerFenced, unfinished
from highwater.transactions.shard import TransactionShard
from highwater.transactions.states import State, moved
from highwater.transactions.transaction import NEVER_MS, NO_EPOCH, NOT_STARTED, Producer, Transaction, is_exhausted


class Asked(NamedTuple):
    """What a producer asks for."""

    transactional_id: str
    timeout_ms: int
    expected: Producer | None = None
    """Who it was until an error; None for a new instance, which fences the others (KIP-360)."""
    in_two_phases: bool = False
    """Whether somebody else coordinates its transactions, which then never time out (KIP-939)."""
    keeps_open: bool = False
    """Whether a transaction that is open stays so, to be ended by who asks."""


def needs_fresh_id(shard: TransactionShard, asked: Asked) -> bool:
    """Whether the answer will be a producer id that nobody has had."""
    known = shard.transactions.get(asked.transactional_id)
    if known is None:
        return True
    if known.state is State.ONGOING:
        return asked.keeps_open and is_exhausted(known.holder.epoch)
    return known.state.is_settled and _rotates(known, asked.expected)


def _rotates(known: Transaction, expected: Producer | None) -> bool:
    is_current = expected is None or expected.epoch == known.producer.epoch
    return is_exhausted(known.producer.epoch) and is_current


def decide(shard: TransactionShard, asked: Asked, *, fresh_id: ProducerId | None, now_ms: int) -> Transaction:
    """Return what is known of the id from now on.

    If that is PrepareAbort, a transaction was open: it is aborted first, and the producer has to ask again. If it is
    Ongoing, the transaction was kept, and its `holder` is who asks.
    """
    asked = _checked(shard, asked)
    known = shard.transactions.get(asked.transactional_id)
    if known is None:
        producer = Producer(_taken(fresh_id), 0)
        return Transaction(asked.transactional_id, producer, State.EMPTY, asked.timeout_ms, now_ms)
    if asked.expected is not None and not _may_go_on(known, asked.expected):
        raise ProducerFenced(theirs=asked.expected, ours=known.producer)
    if known.state.is_prepared:
        raise unfinished(known)
    if known.state is State.ONGOING:
        return (
            known.kept_for(_next_holder(known, fresh_id), now_ms=now_ms)
            if asked.keeps_open
            else known.taken_over(now_ms=now_ms)
        )
    return _settled(known, asked, fresh_id=fresh_id, now_ms=now_ms)


def _checked(shard: TransactionShard, asked: Asked) -> Asked:
    """Return what is asked for with the timeout that it gets, or refuse."""
    if (asked.in_two_phases or asked.keeps_open) and not shard.settings.allows_two_phases:
        raise KafkaError(
            "transaction.two.phase.commit.enable is off", code=ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        )
    if asked.in_two_phases:
        return asked._replace(timeout_ms=NEVER_MS)
    if not 0 < asked.timeout_ms <= shard.settings.max_timeout_ms:
        raise KafkaError(
            f"a transaction timeout of {asked.timeout_ms} ms; at most {shard.settings.max_timeout_ms} is allowed",
            code=ErrorCode.INVALID_TRANSACTION_TIMEOUT,
        )
    return asked


def _next_holder(known: Transaction, fresh_id: ProducerId | None) -> Producer:
    holder = known.holder
    return Producer(_taken(fresh_id), 0) if is_exhausted(holder.epoch) else Producer(holder.id, holder.epoch + 1)


def _settled(known: Transaction, asked: Asked, *, fresh_id: ProducerId | None, now_ms: int) -> Transaction:
    empty = known._replace(
        state=moved(known.state, State.EMPTY),
        timeout_ms=asked.timeout_ms,
        partitions=frozenset(),
        started_at_ms=NOT_STARTED,
        updated_at_ms=now_ms,
    )
    if _rotates(known, asked.expected):
        return empty._replace(
            producer=Producer(_taken(fresh_id), 0),
            previous_producer_id=known.producer.id,
            last_epoch=NO_EPOCH if asked.expected is None else known.producer.epoch,
        )
    return _with_next_epoch(empty, asked.expected)


def _may_go_on(known: Transaction, expected: Producer) -> bool:
    """Whether a producer is the current one, or was until its last request, whose answer it has missed.

    Apache Kafka looks at the epoch only when nothing is open, so that a zombie that recovers from an error aborts the
    transaction of who came after it.
    """
    if expected == known.holder:
        return True
    if known.state is State.ONGOING or expected.epoch != known.last_epoch:
        return False
    return expected.id == known.producer.id or (
        expected.id == known.previous_producer_id and is_exhausted(expected.epoch)
    )


def _with_next_epoch(empty: Transaction, expected: Producer | None) -> Transaction:
    current = empty.producer
    if expected is None:
        return empty._replace(producer=Producer(current.id, current.epoch + 1), last_epoch=NO_EPOCH)
    if expected == current:
        return empty._replace(producer=Producer(current.id, current.epoch + 1), last_epoch=current.epoch)
    if expected.epoch == empty.last_epoch:
        return empty  # It asks again because it has missed the answer. A new instance would have erased this epoch.
    raise ProducerFenced(theirs=expected, ours=current)


def _taken(fresh_id: ProducerId | None) -> ProducerId:
    if fresh_id is None:
        raise NoFreshId("a new producer id is needed; ask again")
    return fresh_id
