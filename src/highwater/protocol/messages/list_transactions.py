"""ListTransactions (key 66): the transactional ids that a broker coordinates."""

from highwater.protocol.schema import Message, Struct, array, int16, int32, int64, string


class ListTransactionsRequest(Message, key=66, versions="0-2", flexible="0+"):
    """Which transactions to list; empty filters let all pass."""

    state_filters: list[str] = array(string)
    producer_id_filters: list[int] = array(int64)
    duration_filter: int = int64(versions="1+", default=-1)
    transactional_id_pattern: str | None = string(versions="2+", nullable="0+", default=None)


class TransactionState(Struct):
    """A transaction."""

    transactional_id: str = string()
    producer_id: int = int64()
    transaction_state: str = string()


class ListTransactionsResponse(Message, key=66, response=True, versions="0-2", flexible="0+"):
    """The transactions that the broker coordinates."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    unknown_state_filters: list[str] = array(string)
    transaction_states: list[TransactionState] = array(TransactionState)
