"""The checks that a batch must pass before it is believed, from its header and checksum alone.

Looking at the records inside, which may need decompression, is another matter, see `contents.py`.
"""

from typing import Final

from highwater.protocol.records.batch import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_BYTES,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    checksum,
    read_header,
)
from highwater.protocol.records.errors import (
    CorruptMessage,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    UnsupportedCompressionType,
)

LAST_CODEC: Final = 4
ZSTD: Final = 4
FIRST_PRODUCE_VERSION_WITH_ZSTD: Final = 7
"""KIP-110: a client that produces with an older version may be followed by readers that do not know zstd."""


def check_batch(view: memoryview, position: int = 0) -> BatchHeader:
    """Return the header of the batch at `position` if all of the batch is there and undamaged.

    This is what a broker asks of batches that it, or another broker, has accepted before.
    """
    header = read_header(view, position)
    _check_length(header, len(view) - position)
    _check_checksum(view, header, position)
    return header


def check_produced(view: memoryview, *, max_message_bytes: int) -> BatchHeader:
    """Return the header of the one batch that `view` holds, as a producer may send it.

    The checksum comes last: the other checks cost next to nothing. A batch that is cut short is the producer's mistake,
    not damage on the way, which a client would answer by sending it again.
    """
    if len(view) <= MAGIC_AT:
        raise InvalidRecord("a produce request must carry one record batch for each partition, found none")
    if view[MAGIC_AT] == MAGIC and len(view) < HEADER_BYTES:
        raise InvalidRecord(f"a record batch needs at least {HEADER_BYTES} bytes, found {len(view)}")
    header = read_header(view)
    if header.size > len(view):
        raise InvalidRecord(f"record batch of {header.size} bytes is cut short after {len(view)}")
    _check_length(header, len(view))
    if header.size > max_message_bytes:
        raise MessageTooLarge(size_bytes=header.size, max_message_bytes=max_message_bytes)
    if header.size < len(view):
        raise InvalidRecord(
            f"a produce request must carry one record batch for each partition, "
            f"found {len(view) - header.size} bytes after the first"
        )
    _check_produced_fields(header)
    _check_checksum(view, header, 0)
    return header


def check_timestamps(header: BatchHeader, *, now_ms: int, before_max_ms: int, after_max_ms: int) -> None:
    """Refuse a batch whose first or latest timestamp is too far from the broker's clock.

    The limits are `message.timestamp.before.max.ms` and `message.timestamp.after.max.ms`, and hold for topics with
    CreateTime. Records out of time order may hide an earlier one inside: a topic that limits the past needs
    `contents.check_record_timestamps`.
    """
    for timestamp in (header.base_timestamp, header.max_timestamp):
        check_timestamp(timestamp, now_ms=now_ms, before_max_ms=before_max_ms, after_max_ms=after_max_ms)


def check_timestamp(timestamp: int, *, now_ms: int, before_max_ms: int, after_max_ms: int) -> None:
    """Refuse one timestamp that is too far from the broker's clock; a record may also have none."""
    if timestamp == NO_TIMESTAMP:
        return
    if timestamp - now_ms > after_max_ms:
        raise InvalidTimestamp(
            f"timestamp {timestamp} is {timestamp - now_ms} ms after the broker's clock; "
            f"message.timestamp.after.max.ms allows {after_max_ms}"
        )
    if now_ms - timestamp > before_max_ms:
        raise InvalidTimestamp(
            f"timestamp {timestamp} is {now_ms - timestamp} ms before the broker's clock; "
            f"message.timestamp.before.max.ms allows {before_max_ms}"
        )


def check_codec_for_version(header: BatchHeader, produce_version: int) -> None:
    """Refuse zstd from producers that speak a version older than zstd (KIP-110)."""
    if header.attributes & CODEC_MASK == ZSTD and produce_version < FIRST_PRODUCE_VERSION_WITH_ZSTD:
        raise UnsupportedCompressionType(
            f"Produce version {produce_version} does not allow zstd; "
            f"version {FIRST_PRODUCE_VERSION_WITH_ZSTD} is the first that does"
        )


def _check_length(header: BatchHeader, available: int) -> None:
    if header.size < HEADER_BYTES:
        raise CorruptMessage(f"record batch states an impossible length, {header.batch_length}")
    if header.size > available:
        raise CorruptMessage(f"record batch of {header.size} bytes is cut short after {available}")


def _check_produced_fields(header: BatchHeader) -> None:
    attributes = header.attributes
    if attributes & CODEC_MASK > LAST_CODEC:
        raise InvalidRecord(f"compression codec {attributes & CODEC_MASK} does not exist")
    if attributes & CONTROL:
        raise InvalidRecord("control batches are written by brokers only")
    if attributes & LOG_APPEND_TIME:
        raise InvalidTimestamp("a producer must not mark its batch as LogAppendTime")
    if attributes & DELETE_HORIZON:
        raise InvalidRecord("a delete horizon is set by the log cleaner only")
    if header.record_count < 1:
        raise InvalidRecord(f"record batch states {header.record_count} records; one is the least")
    if header.record_count != header.last_offset_delta + 1:
        raise InvalidRecord(
            f"batch states {header.record_count} records, but its last offset delta is {header.last_offset_delta}"
        )
    if header.producer_id >= 0:
        if header.base_sequence < 0 or header.producer_epoch < 0:
            raise InvalidRecord(
                f"record batch of producer {header.producer_id} lacks an epoch or a sequence number "
                f"(epoch {header.producer_epoch}, sequence {header.base_sequence})"
            )
    elif attributes & TRANSACTIONAL:
        raise InvalidRecord("a transactional record batch needs a producer id")


def _check_checksum(view: memoryview, header: BatchHeader, position: int) -> None:
    computed = checksum(view, position, header.size)
    if computed != header.crc:
        raise CorruptMessage(f"record batch has checksum {computed:#010x}, its header states {header.crc:#010x}")
