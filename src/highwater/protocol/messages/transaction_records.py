"""The transactions in `__transaction_state`.

A record's key begins with its type as an int16, which is 0, its value with the version that the rest is written in.
"""

from highwater.protocol.schema import Message, Struct, array, int8, int16, int32, int64, string


class TransactionLogKey(Message, key=0, versions="0"):
    """Which transactional id."""

    transactional_id: str = string()


class TransactionPartitions(Struct):
    """Partitions of one topic that the transaction has written to."""

    topic: str = string()
    partition_ids: list[int] = array(int32)


class TransactionLogValue(Message, versions="0-1", flexible="1+"):
    """The state of the transaction."""

    producer_id: int = int64()
    previous_producer_id: int = int64(versions="1+", default=-1, tag=0)
    next_producer_id: int = int64(versions="1+", default=-1, tag=1)
    producer_epoch: int = int16()
    next_producer_epoch: int = int16(versions="1+", default=-1, tag=3)
    transaction_timeout_ms: int = int32()
    transaction_status: int = (
        int8()
    )  # 0: empty, 1: ongoing, 2: prepare commit, 3: prepare abort, 4: committed, 5: aborted, 6: dead
    transaction_partitions: list[TransactionPartitions] | None = array(TransactionPartitions, nullable="0+")
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16(versions="1+", tag=2)
