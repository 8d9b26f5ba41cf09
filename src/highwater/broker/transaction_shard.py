"""One partition's transactions at work: requests and timers in, records, markers and answers out."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from highwater.broker.marker_sender import MarkerSender
from highwater.broker.marker_writer import TransactionEnd
from highwater.model.log_events import EventLog
from highwater.transactions import ending, init_producer, open_transaction, records, timeouts
from highwater.transactions.states import State

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Collection

    from highwater.broker.journal import Journal
    from highwater.broker.marker_sender import Writer
    from highwater.broker.topics import Topics
    from highwater.broker.transaction_metrics import TransactionMetrics
    from highwater.model.errors import ErrorCode, KafkaError
    from highwater.model.ids import ProducerId, TopicPartition
    from highwater.transactions.shard import TransactionShard
    from highwater.transactions.transaction import Producer, Transaction

events = EventLog("transactions")

LOOK_AGAIN_S: Final = 0.5
METADATA_PATIENCE_S: Final = 5.0
"""A broker that has just become the coordinator may not have been told of the newest topics yet."""


class LoadedTransactions:
    """Drives the core of one partition, on the loop, for as long as we lead the partition.

    What is decided counts at once in memory; whoever is told of it waits for the journal. A transaction that is
    prepared is brought to its partitions when its record is committed, and never before.
    """

    __slots__ = (
        "_loop",
        "_markers",
        "_metrics",
        "_senders",
        "_stopped",
        "_topics",
        "_waiting",
        "_wall_ms",
        "core",
        "journal",
    )

    def __init__(
        self,
        core: TransactionShard,
        journal: Journal,
        *,
        loop: AbstractEventLoop,
        wall_ms: Callable[[], int],
        topics: Topics,
        markers: Writer,
        metrics: TransactionMetrics,
    ) -> None:
        self.core = core
        self.journal = journal
        self._loop = loop
        self._wall_ms = wall_ms
        self._topics = topics
        self._markers = markers
        self._metrics = metrics
        self._senders: dict[str, MarkerSender] = {}
        self._waiting: dict[str, Callable[[], None]] = {}
        """Who wants to know when the transaction of an id is complete: one for each id, for there is one gate."""
        self._stopped = False

    def start(self) -> None:
        """Go on with what was decided before: it completes, whatever died in between."""
        for prepared in list(timeouts.prepared(self.core)):
            self._finish(prepared, patience_s=METADATA_PATIENCE_S)

    def stop(self, error: KafkaError) -> None:
        """Let go of the transactions: whoever waits gets `error`, and looks for the new coordinator."""
        self._stopped = True
        for sender in self._senders.values():
            sender.cancel()
        self._senders.clear()
        self._waiting.clear()
        self.journal.close(error)

    # What producers ask ---------------------------------------------------------------------------------------------

    def init_producer(self, asked: init_producer.Asked, *, fresh_id: ProducerId | None) -> Transaction:
        """Return what is known of an id from now on; PrepareAbort means that its producer has to ask again."""
        decided = init_producer.decide(self.core, asked, fresh_id=fresh_id, now_ms=self._wall_ms())
        self._write(decided)
        if decided.state is State.PREPARE_ABORT:
            self._finish(decided)
        return decided

    def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition], *, client_version: int
    ) -> None:
        """Make partitions part of the open transaction, which begins with the first of them."""
        decided = open_transaction.decide_add(
            self.core,
            transactional_id,
            producer,
            partitions,
            client_version=client_version,
            now_ms=self._wall_ms(),
        )
        self._write(decided)

    def check_partitions(
        self, transactional_id: str, producer: Producer, partitions: Collection[TopicPartition]
    ) -> list[ErrorCode]:
        """Return for each partition whether the open transaction has it."""
        return open_transaction.check(self.core, transactional_id, producer, partitions)

    def end(self, asked: ending.Asked, *, fresh_id: ProducerId | None) -> Producer:
        """Decide how a transaction ends, and return who the producer is in its next one."""
        decision = ending.decide(self.core, asked, fresh_id=fresh_id, now_ms=self._wall_ms())
        self._write(decision.transaction)
        if decision.transaction.state.is_prepared:
            self._finish(decision.transaction)
        return decision.producer

    # Time -----------------------------------------------------------------------------------------------------------

    def abort_timed_out(self) -> None:
        """Abort what has been open for too long, and fence its producers."""
        for aborted in timeouts.timed_out(self.core, now_ms=self._wall_ms()):
            events.info("transaction_timed_out", id=aborted.transactional_id, timeout_ms=aborted.timeout_ms)
            self._metrics.timed_out.value += 1
            self._write(aborted)
            self._finish(aborted)

    def forget_expired(self) -> None:
        """Forget the ids that nobody has used for long."""
        for transactional_id in timeouts.expired(self.core, now_ms=self._wall_ms()):
            events.info("transactional_id_expired", id=transactional_id)
            self.core.apply(transactional_id, None)
            self.journal.write([records.encode(transactional_id, None)])

    # From prepared to complete --------------------------------------------------------------------------------------

    def _write(self, transaction: Transaction) -> None:
        self.core.apply(transaction.transactional_id, transaction)
        self.journal.write([records.encode(transaction.transactional_id, transaction)])

    def _finish(self, prepared: Transaction, patience_s: float = 0.0) -> None:
        if not self._stopped:
            send = partial(self._send_markers, prepared, patience_s)
            self.journal.when_committed(partial(self._soon, send))

    def _soon(self, step: Callable[[KafkaError | None], None], error: KafkaError | None) -> None:
        """Take a step that appends: not while the journal tells of a commit."""
        self._loop.call_soon(step, error)

    def when_settled(self, transactional_id: str, call: Callable[[], None]) -> None:
        """Call once the transaction that is being ended is complete; never, if another broker completes it."""
        self._waiting[transactional_id] = call

    def _send_markers(self, prepared: Transaction, patience_s: float, error: KafkaError | None) -> None:
        if self._stopped:
            return
        if error is not None:
            # Replicas are slow, and the record stands.
            self._loop.call_later(LOOK_AGAIN_S, self._finish, prepared, patience_s)
            return
        end = TransactionEnd(
            prepared.producer.id,
            prepared.producer.epoch,
            committed=prepared.state is State.PREPARE_COMMIT,
            coordinator_epoch=self.journal.partition.leader_epoch,
        )
        sender = self._senders[prepared.transactional_id] = MarkerSender(
            end,
            prepared.partitions,
            loop=self._loop,
            topics=self._topics,
            writer=self._markers,
            patience_s=patience_s,
            done=partial(self._complete, prepared),
        )
        sender.start()

    def _complete(self, prepared: Transaction) -> None:
        self._senders.pop(prepared.transactional_id, None)
        self._write(prepared.completed(now_ms=self._wall_ms()))
        if (call := self._waiting.pop(prepared.transactional_id, None)) is not None:
            self._loop.call_soon(call)
        self._metrics.ended(committed=prepared.state is State.PREPARE_COMMIT)
