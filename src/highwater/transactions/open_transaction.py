"""AddPartitionsToTxn: what a transaction is about to write to, and whether it may (KIP-98, KIP-890)."""

from collections.abc import Collection

from highwater.model.errors import ErrorCode
from highwater.model.ids import TopicPartition
from highwater.transactions.refusals import InvalidTransactionState, ProducerFenced, UnknownProducer, unfinished
from highwater.transactions.shard import TransactionShard
from highwater.transactions.states import State
from highwater.transactions.transaction import Producer, Transaction


def decide_add(
    shard: TransactionShard,
    transactional_id: str,
    producer: Producer,
    partitions: Collection[TopicPartition],
    *,
    client_version: int,
    now_ms: int,
) -> Transaction:
    """Return the transaction with these partitions: as it is, if it has them already.

    It is written in either case: a coordinator that was replaced and does not know it must not answer from memory, for
    what it remembers may be an earlier transaction.
    """
    known = _current(shard, transactional_id, producer)
    if known.state is State.ONGOING and known.partitions.issuperset(partitions):
        return known
    return known.with_partitions(partitions, client_version=client_version, now_ms=now_ms)


def check(
    shard: TransactionShard, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
) -> list[ErrorCode]:
    """Return for each partition whether the open transaction has it."""
    known = _current(shard, transactional_id, producer)
    return [ErrorCode.NONE if name in known.partitions else ErrorCode.TRANSACTION_ABORTABLE for name in partitions]


def _current(shard: TransactionShard, transactional_id: str, producer: Producer) -> Transaction:
    known = shard.transactions.get(transactional_id)
    if known is None or producer.id not in {known.producer.id, known.holder.id}:
        raise UnknownProducer(f"{transactional_id!r} does not belong to producer {producer.id}")
    if known.holder != producer:
        raise ProducerFenced(theirs=producer, ours=known.holder)
    if known.is_kept:
        raise InvalidTransactionState(f"{transactional_id!r} was kept open to be ended, and not to go on")
    if known.state.is_prepared:
        raise unfinished(known)
    return known
