"""A partition takes records of a transaction only while the transaction is open at its coordinator (KIP-890).

Without this, a batch that was on its way when its transaction ended would open one that nobody ever ends, and nobody
who reads committed records would get past it.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import islice, takewhile
from typing import TYPE_CHECKING, NamedTuple

from highwater.broker.transaction_check import Entry
from highwater.config.settings.transactions import (
    ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS,
    ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS,
    TRANSACTION_PARTITION_VERIFICATION_ENABLE,
)
from highwater.model.errors import ErrorCode

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop, TimerHandle
    from collections.abc import Callable

    from highwater.broker.partition import Partition
    from highwater.broker.partitions import Partitions
    from highwater.broker.transaction_check import TransactionCheck
    from highwater.config.broker_config import BrokerConfig
    from highwater.model.ids import TopicPartition
    from highwater.transactions.transaction import Producer


class _Waiting(NamedTuple):
    entry: Entry
    tell: Callable[[list[ErrorCode]], None]
    since_s: float


class _Line:
    """Those who wait for one transactional id, first come first served: batches have sequences, which must not mix."""

    __slots__ = ("timer", "transactional_id", "waiting")

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.waiting: deque[_Waiting] = deque()
        self.timer: TimerHandle | None = None
        """Set while the end of the transaction before is waited for."""


class TransactionGate:
    """Lets batches in when the coordinator says so, those of one producer in the order in which they came.

    The coordinator is asked once for all who wait. While the transaction before is being completed, which is a matter
    of moments, they wait for that too: a client that were refused would send everything again.
    """

    def __init__(
        self, loop: AbstractEventLoop, config: BrokerConfig, check: TransactionCheck, partitions: Partitions
    ) -> None:
        self._loop = loop
        self._config = config
        self._check = check
        self._partitions = partitions
        self._lines: dict[str, _Line] = {}

    def is_open(self, transactional_id: str, partition: Partition, producer: Producer, *, adds: bool) -> bool:
        """Whether nobody needs to be asked: the transaction has written here, or checks are switched off."""
        if transactional_id in self._lines:
            return False  # Somebody came first.
        return self._check.has_written(partition, producer) or (
            not adds and not self._config[TRANSACTION_PARTITION_VERIFICATION_ENABLE]
        )

    def enter(self, entry: Entry, tell: Callable[[list[ErrorCode]], None]) -> None:
        """Tell for each partition whether it may be written to: at once, or when the coordinator's log says so."""
        waiting = _Waiting(entry, tell, self._loop.time())
        line = self._lines.get(entry.transactional_id)
        if line is not None:
            line.waiting.append(waiting)
            return
        line = self._lines[entry.transactional_id] = _Line(entry.transactional_id)
        line.waiting.append(waiting)
        self._ask(line)

    def _ask(self, line: _Line) -> None:
        """Ask for all who wait for the same, or let them in if those before them have opened their partitions."""
        first = line.waiting[0].entry
        same = list(takewhile(lambda each: _asks_the_same(each.entry, first), line.waiting))
        names = list(dict.fromkeys(name for each in same for name in each.entry.partitions))
        told = partial(self._answered, line, len(same), names)
        if all(self._check.has_written(self._partitions.get(*name), first.producer) for name in names):
            told([ErrorCode.NONE] * len(names))
        else:
            self._check.ask(first._replace(partitions=names), told)

    def _answered(self, line: _Line, count: int, names: list[TopicPartition], codes: list[ErrorCode]) -> None:
        first = line.waiting[0]
        if ErrorCode.CONCURRENT_TRANSACTIONS in codes and not self._is_late(first):
            self._ask_again(line)
            return
        answers = dict(zip(names, codes, strict=True))
        otherwise = next(filter(None, codes), ErrorCode.NONE)
        if otherwise:
            # Whoever came after one that is refused would leave a gap in the producer's sequences.
            told = [each for each in line.waiting if _asks_the_same(each.entry, first.entry)]
        else:
            told = list(islice(line.waiting, count))
        line.waiting = deque(each for each in line.waiting if each not in told)
        for each in told:
            each.tell([answers.get(name, otherwise) for name in each.entry.partitions])
        if line.waiting:
            self._ask(line)
        else:
            del self._lines[line.transactional_id]

    def _is_late(self, waiting: _Waiting) -> bool:
        patience_s = self._config[ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MAX_MS] / 1000
        return self._loop.time() - waiting.since_s >= patience_s

    def _ask_again(self, line: _Line) -> None:
        """Ask when the transaction before is complete: our own coordinator tells, another one is asked repeatedly."""
        pause_s = self._config[ADD_PARTITIONS_TO_TXN_RETRY_BACKOFF_MS] / 1000
        line.timer = self._loop.call_later(pause_s, self._time_to_ask, line)
        self._check.when_settled(line.transactional_id, partial(self._time_to_ask, line))

    def _time_to_ask(self, line: _Line) -> None:
        if line.timer is not None:
            line.timer.cancel()
            line.timer = None
            self._ask(line)


def _asks_the_same(entry: Entry, other: Entry) -> bool:
    return entry.producer == other.producer and entry.adds == other.adds
