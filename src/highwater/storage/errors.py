"""What storage answers when it cannot do what it was asked."""

from collections.abc import Callable

from highwater.model.errors import ErrorCode, KafkaError, StorageError


class OffsetOutOfRange(KafkaError):
    """A read outside of what the log holds."""

    code = ErrorCode.OFFSET_OUT_OF_RANGE

    def __init__(self, offset: int, *, log_start_offset: int, log_end_offset: int) -> None:
        super().__init__(f"offset {offset} is not in the log, which runs from {log_start_offset} to {log_end_offset}")


class RecordListTooLarge(KafkaError):
    """A batch that no segment can hold."""

    code = ErrorCode.RECORD_LIST_TOO_LARGE


class OutOfOrderSequence(KafkaError):
    """An idempotent producer skipped a sequence number: a batch is missing in between."""

    code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpoch(KafkaError):
    """A producer with an older epoch than the one we know: another instance has taken its place."""

    code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTransactionState(KafkaError):
    """A batch outside of a transaction from a producer that has one open."""

    code = ErrorCode.INVALID_TXN_STATE


class TransactionCoordinatorFenced(KafkaError):
    """A transaction marker from a coordinator that has been replaced."""

    code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class DamagedSegment(StorageError):
    """Bytes in a segment that are not the batch that should be there."""

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"damaged at byte {position}: {reason}")
        self.position = position


class NotInMemory(Exception):
    """Whoever may not wait would have to wait for the disk. `fetch` does the waiting, on a thread; then try again."""

    def __init__(self, fetch: Callable[[], object]) -> None:
        super().__init__("not in memory")
        self.fetch = fetch
