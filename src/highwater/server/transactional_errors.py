"""How errors of transactions are told to clients that are too old for their names."""

from typing import Final

from highwater.model.errors import ErrorCode


def fenced_as(code: ErrorCode, *, known: bool) -> ErrorCode:
    """Return PRODUCER_FENCED in the words of clients that do not know it."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED and not known else code


GOES_AWAY: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NETWORK_EXCEPTION,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What the coordinator of a transaction says to a broker that asks for a client: the client only has to ask again."""


def refused_commit(code: ErrorCode) -> ErrorCode:
    """Return why a group takes no offsets of a transaction, as its coordinator says it.

    Where the transaction's coordinator cannot be asked, the client looks for the group's again: whoever is cut off does
    not know that both are elsewhere by now, and a client that only waited would wait for as long as that lasts.
    """
    if code in {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return ErrorCode.COORDINATOR_NOT_AVAILABLE if code in GOES_AWAY else code


def refused_entry(code: ErrorCode, *, knows_abortable: bool) -> ErrorCode:
    """Return why a partition does not take a transactional batch, as a Produce may say it.

    What goes away by itself is NOT_ENOUGH_REPLICAS, as in Apache Kafka: clients try again, and do not look for another
    leader first.
    """
    if code in GOES_AWAY:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    if code is ErrorCode.TRANSACTION_ABORTABLE and not knows_abortable:
        return ErrorCode.INVALID_TXN_STATE
    return fenced_as(code, known=False)
