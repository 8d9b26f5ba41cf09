"""AddOffsetsToTxn (key 25): a group whose offsets a transaction is about to commit."""

from highwater.protocol.schema import Message, int16, int32, int64, string


class AddOffsetsToTxnRequest(Message, key=25, versions="0-4", flexible="3+"):
    """The transaction and the group."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    group_id: str = string()


class AddOffsetsToTxnResponse(Message, key=25, response=True, versions="0-4", flexible="3+"):
    """Whether the group's partition of the offsets topic is now part of the transaction."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
