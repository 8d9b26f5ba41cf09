"""What is due without anybody asking: transactions that were open for too long, ids that nobody uses."""

from collections.abc import Iterator

from highwater.transactions.shard import TransactionShard
from highwater.transactions.states import State
from highwater.transactions.transaction import NEVER_MS, Producer, Transaction


class Deadlines:
    """Until when transactions may stay open, on a clock that never jumps.

    Their records say by the wall clock when they began, which may have been another broker's clock, or this one's
    before it was set right. It counts for what is over already; but whatever it says, nothing stays open for longer
    than its timeout from when we have first seen it open.
    """

    def __init__(self) -> None:
        self._due_ms: dict[tuple[Producer, int], float] = {}
        """Of each open transaction, by its producer and when it began."""

    def timed_out(self, shard: TransactionShard, *, now_ms: int, steady_ms: float) -> list[Transaction]:
        """Return the open transactions that are past their timeout, each on the way to be aborted.

        Their producers are fenced: one that comes back must not go on as if nothing had happened.
        """
        before, self._due_ms = self._due_ms, {}
        late = []
        for transaction in shard.transactions.values():
            if transaction.state is not State.ONGOING or transaction.timeout_ms == NEVER_MS:
                continue
            key = transaction.producer, transaction.started_at_ms
            due_ms = before.get(key)
            if due_ms is None:
                left_ms = transaction.started_at_ms + transaction.timeout_ms - now_ms
                due_ms = steady_ms + min(left_ms, transaction.timeout_ms)
            if due_ms < steady_ms:
                late.append(transaction.fenced(now_ms=now_ms))
            else:
                self._due_ms[key] = due_ms
        return late


def expired(shard: TransactionShard, *, now_ms: int) -> list[str]:
    """Return the ids that may be forgotten: nothing is open, and nothing was for long."""
    latest_ms = now_ms - shard.settings.id_expiration_ms
    return [
        transaction.transactional_id
        for transaction in shard.transactions.values()
        if transaction.state.is_settled and transaction.updated_at_ms <= latest_ms
    ]


def prepared(shard: TransactionShard) -> Iterator[Transaction]:
    """Return the transactions that are decided and not complete: after a restart they go on from there."""
    return (transaction for transaction in shard.transactions.values() if transaction.state.is_prepared)
