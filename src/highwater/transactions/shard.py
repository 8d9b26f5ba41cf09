"""The transactional ids of one partition of `__transaction_state`."""

from dataclasses import dataclass

from highwater.transactions.transaction import Transaction


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionSettings:
    """Limits; the defaults are Apache Kafka's."""

    max_timeout_ms: int = 900_000
    id_expiration_ms: int = 7 * 24 * 3_600_000
    allows_two_phases: bool = False


class TransactionShard:
    """The state of one partition: for each id, what its last record says.

    Invariant: replaying the partition's records into an empty shard gives the same transactions, but for `last_epoch`.
    """

    __slots__ = ("settings", "transactions")

    def __init__(self, settings: TransactionSettings) -> None:
        self.settings = settings
        self.transactions: dict[str, Transaction] = {}

    def apply(self, transactional_id: str, transaction: Transaction | None) -> None:
        """Let one record count, whether it was decided just now or is read again; None forgets the id."""
        if transaction is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = transaction
