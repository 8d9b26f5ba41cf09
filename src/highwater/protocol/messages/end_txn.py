"""EndTxn (key 26): commit or abort a transaction."""

from highwater.protocol.schema import Message, boolean, int16, int32, int64, string


class EndTxnRequest(Message, key=26, versions="0-5", flexible="3+"):
    """The transaction, and whether to commit it."""

    transactional_id: str = string()
    producer_id: int = int64()
    producer_epoch: int = int16()
    committed: bool = boolean()


class EndTxnResponse(Message, key=26, response=True, versions="0-5", flexible="3+"):
    """Whether the outcome is decided; from version 5 also the epoch for the next transaction (KIP-890)."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(versions="5+", default=-1)
    producer_epoch: int = int16(versions="5+", default=-1)
