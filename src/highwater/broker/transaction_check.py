"""Asking a transaction's coordinator, here or on another broker, whether the transaction is open (KIP-890)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from highwater.model.errors import ErrorCode, KafkaError
from highwater.transactions.transaction import RAISES_EPOCH_VERSION

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Sequence

    from highwater.broker.partition import Partition
    from highwater.broker.partitions import Partitions
    from highwater.broker.remote_coordinators import RemoteCoordinators
    from highwater.broker.transaction_coordinator import TransactionCoordinator
    from highwater.model.ids import TopicPartition
    from highwater.storage.producer_state import ProducerState
    from highwater.transactions.transaction import Producer

_ENDED_MEANWHILE: Final = ErrorCode.TRANSACTION_ABORTABLE


class Entry(NamedTuple):
    """Who wants to write to which partitions as part of a transaction."""

    transactional_id: str
    producer: Producer
    partitions: Sequence[TopicPartition]
    adds: bool
    """Whether the write itself makes them part of the transaction (KIP-890, part 2)."""


class TransactionCheck:
    """Asks the coordinator of a transaction."""

    def __init__(
        self,
        loop: AbstractEventLoop,
        coordinator: TransactionCoordinator,
        *,
        partitions: Partitions,
        elsewhere: RemoteCoordinators | None,
    ) -> None:
        """`elsewhere` is None in a cluster of one."""
        self._loop = loop
        self._coordinator = coordinator
        self._partitions = partitions
        self._elsewhere = elsewhere

    def ask(self, entry: Entry, tell: Callable[[list[ErrorCode]], None]) -> None:
        """Tell for each partition whether it may be written to: at once, or when the coordinator's log says so."""
        try:
            shard = self._coordinator.shard_of(entry.transactional_id)
            if entry.adds:
                shard.add_partitions(
                    entry.transactional_id, entry.producer, entry.partitions, client_version=RAISES_EPOCH_VERSION
                )
            else:
                shard.confirm(entry.transactional_id)
        except KafkaError as error:
            if error.code is ErrorCode.NOT_COORDINATOR and self._elsewhere is not None:
                self._ask_elsewhere(self._elsewhere, entry, tell)
            else:
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

        if shard.journal.is_busy:
            # Whoever is let in appends, and that must not happen while the journal tells of a commit.
            shard.journal.when_committed(lambda error: self._soon(committed, error))
        else:
            committed(None)

    def when_settled(self, transactional_id: str, call: Callable[[], None]) -> None:
        """Call once the transaction that is being ended is complete, if its coordinator is on this broker."""
        try:
            shard = self._coordinator.shard_of(transactional_id)
        except KafkaError:
            return
        shard.when_settled(transactional_id, call)

    def has_written(self, partition: Partition | None, producer: Producer) -> bool:
        """Whether a partition has records of the producer's open transaction."""
        state = None if partition is None else partition.log.producers.get(producer.id)
        return state is not None and state.has_open_transaction and state.epoch == producer.epoch

    def _soon(self, step: Callable[[KafkaError | None], None], error: KafkaError | None) -> None:
        self._loop.call_soon(step, error)

    # Another broker's word ------------------------------------------------------------------------------------------

    def _ask_elsewhere(
        self, elsewhere: RemoteCoordinators, entry: Entry, tell: Callable[[list[ErrorCode]], None]
    ) -> None:
        before = [self._state(name, entry.producer) for name in entry.partitions]

        def told(codes: list[ErrorCode]) -> None:
            tell(
                [
                    code or self._still_open(name, entry.producer, known)
                    for name, known, code in zip(entry.partitions, before, codes, strict=True)
                ]
            )

        elsewhere.ask(self._coordinator.leader_for(entry.transactional_id), entry, told)

    def _state(self, name: TopicPartition, producer: Producer) -> ProducerState | None:
        partition = self._partitions.get(*name)
        return None if partition is None else partition.log.producers.get(producer.id)

    def _still_open(self, name: TopicPartition, producer: Producer, before: ProducerState | None) -> ErrorCode:
        """Refuse when the transaction may have ended here while the coordinator's answer was on its way.

        Its end is a marker, and a marker replaces what the partition knows of the producer.
        """
        try:
            partition = self._partitions.leader_of(*name)
        except KafkaError as error:
            return error.code
        is_unchanged = partition.log.producers.get(producer.id) is before
        return ErrorCode.NONE if is_unchanged or self.has_written(partition, producer) else _ENDED_MEANWHILE
