"""InitProducerId (key 22): an id and epoch for an idempotent or transactional producer."""

from highwater.protocol.schema import Message, boolean, int16, int32, int64, string


class InitProducerIdRequest(Message, key=22, versions="0-6", flexible="2+"):
    """Who wants an id; a transactional id gets its earlier producer fenced off."""

    transactional_id: str | None = string(nullable="0+")
    transaction_timeout_ms: int = int32()
    producer_id: int = int64(versions="3+", default=-1)
    producer_epoch: int = int16(versions="3+", default=-1)
    enable_2pc: bool = boolean(versions="6+")
    keep_prepared_txn: bool = boolean(versions="6+")


class InitProducerIdResponse(Message, key=22, response=True, versions="0-6", flexible="2+"):
    """The id and epoch to write with."""

    throttle_time_ms: int = int32()
    error_code: int = int16()
    producer_id: int = int64(default=-1)
    producer_epoch: int = int16()
    ongoing_txn_producer_id: int = int64(versions="6+", default=-1)
    ongoing_txn_producer_epoch: int = int16(versions="6+", default=-1)
