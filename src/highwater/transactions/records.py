"""The records of `__transaction_state`, in Kafka's own format: for each transactional id all that is known of it."""

from itertools import groupby
from operator import attrgetter
from struct import Struct
from typing import Final

from highwater.model.errors import MalformedFrame
from highwater.model.ids import ProducerId, TopicPartition
from highwater.protocol import codec
from highwater.protocol.messages.transaction_records import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionPartitions,
)
from highwater.transactions.states import State
from highwater.transactions.transaction import Producer, Transaction

_NUMBER: Final = Struct(">h")
_KIND: Final = 0
_VALUE_VERSION: Final = 1
"""The flexible one, which Apache Kafka reads since 3.8."""


def encode(transactional_id: str, transaction: Transaction | None) -> tuple[bytes, bytes | None]:
    """Return the key and the value as they are written to the log; without a transaction, a tombstone."""
    key = _NUMBER.pack(_KIND) + codec.encode(TransactionLogKey(transactional_id=transactional_id), 0)
    if transaction is None:
        return key, None
    partitions = groupby(sorted(transaction.partitions), attrgetter("topic"))
    value = TransactionLogValue(
        producer_id=transaction.producer.id,
        producer_epoch=transaction.producer.epoch,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=transaction.next_producer_id,
        next_producer_epoch=transaction.next_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=transaction.state,
        transaction_partitions=[
            TransactionPartitions(topic=topic, partition_ids=[name.partition for name in names])
            for topic, names in partitions
        ],
        transaction_last_update_timestamp_ms=transaction.updated_at_ms,
        transaction_start_timestamp_ms=transaction.started_at_ms,
        client_transaction_version=transaction.client_version,
    )
    return key, _NUMBER.pack(_VALUE_VERSION) + codec.encode(value, _VALUE_VERSION)


def decode(key: bytes, value: bytes | None) -> tuple[str, Transaction | None] | None:
    """Return the id and its transaction, or None for a kind of record that only a newer broker knows."""
    if _leading_number(key) != _KIND:
        return None
    transactional_id = codec.decode(TransactionLogKey, 0, memoryview(key)[_NUMBER.size :]).transactional_id
    if value is None:
        return transactional_id, None
    read = codec.decode(TransactionLogValue, _leading_number(value), memoryview(value)[_NUMBER.size :])
    return transactional_id, _transaction(transactional_id, read)


def _transaction(transactional_id: str, value: TransactionLogValue) -> Transaction:
    if value.transaction_status not in State.__members__.values():
        raise MalformedFrame(f"{transactional_id!r} is in state {value.transaction_status}, which there is not")
    return Transaction(
        transactional_id,
        Producer(ProducerId(value.producer_id), value.producer_epoch),
        State(value.transaction_status),
        timeout_ms=value.transaction_timeout_ms,
        updated_at_ms=value.transaction_last_update_timestamp_ms,
        started_at_ms=value.transaction_start_timestamp_ms,
        partitions=frozenset(
            TopicPartition(topic.topic, index)
            for topic in value.transaction_partitions or ()
            for index in topic.partition_ids
        ),
        previous_producer_id=ProducerId(value.previous_producer_id),
        next_producer_id=ProducerId(value.next_producer_id),
        next_epoch=value.next_producer_epoch,
        client_version=value.client_transaction_version,
    )


def _leading_number(data: bytes) -> int:
    if len(data) < _NUMBER.size:
        raise MalformedFrame(f"a transaction record of {len(data)} bytes is cut short")
    number: int = _NUMBER.unpack_from(data)[0]
    return number
