"""What is due without anybody asking: transactions that were open for too long, ids that nobody uses."""

from collections.abc import Iterator

from highwater.transactions.shard import TransactionShard
from highwater.transactions.states import State
from highwater.transactions.transaction import NEVER_MS, Transaction


def timed_out(shard: TransactionShard, *, now_ms: int) -> list[Transaction]:
    """Return the open transactions that are past their timeout, each on the way to be aborted.

    Their producers are fenced: one that comes back must not go on as if nothing had happened.
    """
    return [
        transaction.fenced(now_ms=now_ms)
        for transaction in shard.transactions.values()
        if transaction.state is State.ONGOING
        and transaction.timeout_ms != NEVER_MS
        and transaction.started_at_ms + transaction.timeout_ms < now_ms
    ]


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
