"""What may be wrong with a record batch, as answers that a client understands."""

from typing import Final

from highwater.model.errors import ErrorCode, KafkaError

_OLDER_FORMATS: Final = (0, 1)


class CorruptMessage(KafkaError):
    """The bytes are damaged: wrong checksum, wrong length, or compressed data that does not decompress."""

    code = ErrorCode.CORRUPT_MESSAGE


class RecordAtFault(KafkaError):
    """The batch is undamaged and breaks a rule; `record_index` is its record that does, where one does."""

    def __init__(self, message: str, *, record_index: int | None = None) -> None:
        super().__init__(message)
        self.record_index = record_index


class InvalidRecord(RecordAtFault):
    """The batch breaks a rule of the format or of its topic."""

    code = ErrorCode.INVALID_RECORD


class InvalidTimestamp(RecordAtFault):
    """A timestamp is too far from the broker's clock, or of a type that only a broker may set."""

    code = ErrorCode.INVALID_TIMESTAMP


class MessageTooLarge(KafkaError):
    """The batch is larger than `max.message.bytes` of its topic."""

    code = ErrorCode.MESSAGE_TOO_LARGE

    def __init__(self, *, size_bytes: int, max_message_bytes: int) -> None:
        super().__init__(f"record batch of {size_bytes} bytes is over max.message.bytes, which is {max_message_bytes}")


class UnsupportedMessageFormat(KafkaError):
    """The batch has a format other than version 2, the only one in use since Kafka 0.11.

    The codes are those of Apache Kafka 4: a batch of an older format is not valid, one of a format that never was is
    taken for damaged.
    """

    def __init__(self, magic: int) -> None:
        super().__init__(
            f"message format version {magic} is not supported; only version 2 (Kafka 0.11 and later) is",
            code=ErrorCode.INVALID_RECORD if magic in _OLDER_FORMATS else ErrorCode.CORRUPT_MESSAGE,
        )


class UnsupportedCompressionType(KafkaError):
    """The batch is compressed in a way that its reader would not understand."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
