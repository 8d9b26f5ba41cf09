"""A partition takes records of a transaction only while the transaction is open at its coordinator (KIP-890).

Without this, a batch that was on its way when its transaction ended would open one that nobody ever ends, and nobody
who reads committed records would get past it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from highwater.config.settings.transactions import TRANSACTION_PARTITION_VERIFICATION_ENABLE
from highwater.model.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from highwater.broker.partition import Partition
    from highwater.broker.transaction_coordinator import TransactionCoordinator
    from highwater.config.broker_config import BrokerConfig
    from highwater.model.ids import TopicPartition
    from highwater.transactions.transaction import Producer

RAISES_EPOCH_VERSION = 2
"""The `transaction.version` from which partitions are added by the write itself."""


class Entry(NamedTuple):
    """Who wants to write to which partitions as part of a transaction."""

    transactional_id: str
    producer: Producer
    partitions: Sequence[TopicPartition]
    adds: bool
    """Whether the write itself makes them part of the transaction (KIP-890, part 2)."""


class TransactionGate:
    """Asks the coordinator."""

    def __init__(self, coordinator: TransactionCoordinator, config: BrokerConfig) -> None:
        self._coordinator = coordinator
        self._config = config

    def is_open(self, partition: Partition, producer: Producer, *, adds: bool) -> bool:
        """Whether nobody needs to be asked: the transaction has written here, or checks are switched off."""
        state = partition.log.producers.get(producer.id)
        if state is not None and state.has_open_transaction and state.epoch == producer.epoch:
            return True
        return not adds and not self._config[TRANSACTION_PARTITION_VERIFICATION_ENABLE]

    def enter(self, entry: Entry, tell: Callable[[list[ErrorCode]], None]) -> None:
        """Tell for each partition whether it may be written to: at once, or when the coordinator's log says so."""
        try:
            shard = self._coordinator.shard_of(entry.transactional_id)
            if entry.adds:
                shard.add_partitions(
                    entry.transactional_id, entry.producer, entry.partitions, client_version=RAISES_EPOCH_VERSION
                )
        except KafkaError as error:
            tell([error.code] * len(entry.partitions))
            return

        def committed(error: KafkaError | None) -> None:
            try:
                if error is not None:
                    raise error
                codes = shard.check_partitions(entry.transactional_id, entry.producer, entry.partitions)
            except KafkaError as refusal:
                codes = [refusal.code] * len(entry.partitions)
            tell(codes)

        shard.journal.when_committed(committed)
