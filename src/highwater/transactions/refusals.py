"""Why a coordinator does not do what a producer asks."""

from highwater.model.errors import ErrorCode, KafkaError
from highwater.transactions.transaction import Producer, Transaction


class ConcurrentTransactions(KafkaError):
    """What came before is not finished; ask again in a moment."""

    code = ErrorCode.CONCURRENT_TRANSACTIONS


class ProducerFenced(KafkaError):
    """Another instance with the same transactional id has taken over."""

    code = ErrorCode.PRODUCER_FENCED

    def __init__(self, *, theirs: Producer, ours: Producer) -> None:
        super().__init__(
            f"producer {theirs.id} of epoch {theirs.epoch} was replaced by {ours.id} of epoch {ours.epoch}"
        )


class UnknownProducer(KafkaError):
    """The transactional id is not known, or has another producer id than the request says."""

    code = ErrorCode.INVALID_PRODUCER_ID_MAPPING


class InvalidTransactionState(KafkaError):
    """A move that the transaction cannot make from where it is."""

    code = ErrorCode.INVALID_TXN_STATE


class NoFreshId(KafkaError):
    """A producer id is needed that nobody has taken for us; the client asks again."""

    code = ErrorCode.COORDINATOR_NOT_AVAILABLE


def unfinished(transaction: Transaction) -> ConcurrentTransactions:
    """Return the refusal of whoever must wait for the markers."""
    return ConcurrentTransactions(f"{transaction.transactional_id!r} is in {transaction.state.label}")
