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
    from highwater.broker.marker_sender import Deletions, Writer
    from highwater.broker.transaction_metrics import TransactionMetrics
    from highwater.model.errors import ErrorCode, KafkaError
    from highwater.model.ids import ProducerId, TopicPartition
    from highwater.transactions.shard import TransactionShard
    from highwater.transactions.transaction import Producer, Transaction

events = EventLog("transactions")

LOOK_AGAIN_S: Final = 0.5


class LoadedTransactions:
    """Drives the core of one partition, on the loop, for as long as we lead the partition.

    What is decided counts at once in memory; whoever is told of it waits for the journal. A transaction that is
    prepared is brought to its partitions when its record is committed, and never before.
    """

    __slots__ = (
        "_deadlines",
        "_deletions",
        "_loop",
        "_markers",
        "_metrics",
        "_senders",
        "_stopped",
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
        markers: Writer,
        deletions: Deletions,
        metrics: TransactionMetrics,
    ) -> None:
        self.core = core
        self.journal = journal
        self._loop = loop
        self._wall_ms = wall_ms
        self._markers = markers
        self._deletions = deletions
        self._metrics = metrics
        self._deadlines = timeouts.Deadlines()
        self._senders: dict[str, MarkerSender] = {}
        self._waiting: dict[str, Callable[[], None]] = {}
        """Who wants to know when the transaction of an id is complete: one for each id, for there is one gate."""
        self._stopped = False

    def start(self) -> None:
        """Go on with what was decided before: it completes, whatever died in between."""
        for prepared in list(timeouts.prepared(self.core)):
            self._finish(prepared)

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

    def confirm(self, transactional_id: str) -> None:
        """Have the log say again what we know, for those who are told when all of it is committed.

        A coordinator that was replaced and does not know it would let a late batch into a transaction that the next
        one has ended, and nobody would ever end it there.
        """
        known = self.core.transactions.get(transactional_id)
        if known is not None and len(self.journal.partition.replicas) > 1 and not self.journal.is_busy:
            self._write(known)

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
        steady_ms = self._loop.time() * 1000
        for aborted in self._deadlines.timed_out(self.core, now_ms=self._wall_ms(), steady_ms=steady_ms):
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

    def _finish(self, prepared: Transaction) -> None:
        if not self._stopped:
            send = partial(self._send_markers, prepared)
            self.journal.when_committed(partial(self._soon, send))

    def _soon(self, step: Callable[[KafkaError | None], None], error: KafkaError | None) -> None:
        """Take a step that appends: not while the journal tells of a commit."""
        self._loop.call_soon(step, error)

    @property
    def markers_left(self) -> int:
        """How many partitions wait for markers."""
        return sum(len(sender.left) for sender in self._senders.values())

    def partitions_left(self, known: Transaction) -> frozenset[TopicPartition]:
        """Return the partitions of a transaction; once it is decided, only those that have no marker yet."""
        sender = self._senders.get(known.transactional_id)
        return known.partitions if sender is None else sender.left

    def when_settled(self, transactional_id: str, call: Callable[[], None]) -> None:
        """Call once the transaction that is being ended is complete; never, if another broker completes it."""
        self._waiting[transactional_id] = call

    def _send_markers(self, prepared: Transaction, error: KafkaError | None) -> None:
        if self._stopped:
            return
        if error is not None:
            # Replicas are slow, and the record stands.
            self._loop.call_later(LOOK_AGAIN_S, self._finish, prepared)
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
            writer=self._markers,
            deletions=self._deletions,
            metrics=self._metrics,
            done=partial(self._complete, prepared),
        )
        sender.start()

    def _complete(self, prepared: Transaction) -> None:
        self._senders.pop(prepared.transactional_id, None)
        self._write(prepared.completed(now_ms=self._wall_ms()))
        if (call := self._waiting.pop(prepared.transactional_id, None)) is not None:
            self._loop.call_soon(call)
        self._metrics.ended(committed=prepared.state is State.PREPARE_COMMIT)
