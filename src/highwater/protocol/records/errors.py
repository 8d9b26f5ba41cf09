"""What may be wrong with a record batch, as answers that a client understands."""

from highwater.model.errors import ErrorCode, KafkaError


class CorruptMessage(KafkaError):
    """The bytes are damaged: wrong checksum, wrong length, or compressed data that does not decompress."""

    code = ErrorCode.CORRUPT_MESSAGE


class InvalidRecord(KafkaError):
    """The batch is undamaged and breaks a rule of the format or of its topic."""

    code = ErrorCode.INVALID_RECORD


class InvalidTimestamp(KafkaError):
    """A timestamp is too far from the broker's clock, or of a type that only a broker may set."""

    code = ErrorCode.INVALID_TIMESTAMP


class MessageTooLarge(KafkaError):
    """The batch is larger than `max.message.bytes` of its topic."""

    code = ErrorCode.MESSAGE_TOO_LARGE

    def __init__(self, *, size_bytes: int, max_message_bytes: int) -> None:
        super().__init__(f"record batch of {size_bytes} bytes is over max.message.bytes, which is {max_message_bytes}")


class UnsupportedMessageFormat(KafkaError):
    """The batch has a format other than version 2, the only one in use since Kafka 0.11."""

    code = ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT

    def __init__(self, magic: int) -> None:
        super().__init__(f"message format version {magic} is not supported; only version 2 (Kafka 0.11 and later) is")


class UnsupportedCompressionType(KafkaError):
    """The batch is compressed in a way that its reader would not understand."""

    code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
