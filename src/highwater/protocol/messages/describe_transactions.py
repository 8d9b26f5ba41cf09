"""DescribeTransactions (key 65): the state of transactions."""

from highwater.protocol.schema import Message, Struct, array, int16, int32, int64, string


class DescribeTransactionsRequest(Message, key=65, versions="0", flexible="0+"):
    """The transactions to describe."""

    transactional_ids: list[str] = array(string)


class TopicData(Struct):
    """Partitions of one topic that the transaction has written to."""

    topic: str = string()
    partitions: list[int] = array(int32)


class TransactionState(Struct):
    """The state of one transaction."""

    error_code: int = int16()
    transactional_id: str = string()
    transaction_state: str = string()
    transaction_timeout_ms: int = int32()
    transaction_start_time_ms: int = int64()
    producer_id: int = int64()
    producer_epoch: int = int16()
    topics: list[TopicData] = array(TopicData)


class DescribeTransactionsResponse(Message, key=65, response=True, versions="0", flexible="0+"):
    """The state of each transaction."""

    throttle_time_ms: int = int32()
    transaction_states: list[TransactionState] = array(TransactionState)
